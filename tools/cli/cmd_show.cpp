// quern show and quern why: what the model wrote, and what became of it.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "actors/inspect/ledger_state.hpp"
#include "actors/inspect/sample_life.hpp"
#include "actors/inspect/sample_list.hpp"
#include "actors/inspect/sample_view.hpp"
#include "base/json.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/write_signals.hpp"
#include "storage/run_directory.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/find_run.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/tell.hpp"

namespace quern::tools {
namespace {

constexpr std::int64_t largest_id = 9'000'000'000'000'000;

/// A run whose samples can be read; `reader` is empty where it has none, and `why` says so.
struct open_run {
  storage::run_paths paths;
  std::optional<storage::sample_reader> reader;
  std::string why;
};

base::expected<open_run> open_samples(const std::string& word) {
  QUERN_TRY(const std::filesystem::path folder, find_run(word));
  open_run made{{folder}, std::nullopt, {}};
  QUERN_TRY(const base::json meta, storage::read_meta(made.paths));
  if (base::get<std::string>(meta, "stage").value_or("") == "sft") {
    made.why = "is of stage sft, which issues no samples; quern status tells where it stands";
    return made;
  }
  QUERN_TRY(const bool begun, actors::has_ledger(made.paths));
  if (!begun) {
    made.why =
        "has no samples: run.db is missing or empty, as before a run issues its first "
        "prompt; quern status tells whether it goes on";
    return made;
  }
  QUERN_TRY(made.reader, storage::sample_reader::open(made.paths.database()));
  QUERN_TRY(const std::int64_t last, made.reader->last_sample());
  if (last > 0) return made;
  made.why = "has issued no samples yet; quern status tells whether it goes on";
  made.reader.reset();
  return made;
}

int print_json(const char* name, const base::ordered_json& value) {
  return print_result(name, base::dump(value) + "\n");
}

/// There is nothing to show: a sentence, and with --json an empty list besides.
int say_nothing(const char* name, const std::string& run, const std::string& why, bool as_json) {
  if (as_json) {
    const int printed = print_json(name, actors::list_json({}, nullptr));
    if (printed != done) return printed;
  }
  tell(stderr, "quern {}: {} {}\n", name, run, why);
  return nothing;
}

struct show_arguments {
  std::string run, verdict, task;
  std::optional<std::int64_t> sample, step, width;
  std::int64_t limit = actors::sample_choice{}.limit;
  bool best = false, worst = false, texts = false, json = false;
};

base::expected<actors::sample_choice> choice_of(const show_arguments& a) {
  actors::sample_choice choice;
  choice.step = a.step;
  choice.task = a.task;
  choice.limit = a.limit;
  if (a.best) choice.by = actors::sample_choice::order::best;
  if (a.worst) choice.by = actors::sample_choice::order::worst;
  if (a.verdict.empty()) return choice;
  choice.verdict = env::parse_verdict_kind(a.verdict);
  if (choice.verdict) return choice;
  std::vector<std::string_view> names;
  for (int i = 0; i < env::verdict_kind_count; ++i)
    names.push_back(env::name_of(static_cast<env::verdict_kind>(i)));
  return base::fail(base::errc::invalid_argument, "--verdict is '{}'{}: verdicts are {}", a.verdict,
                    base::did_you_mean(a.verdict, names), fmt::join(names, ", "));
}

int show_sample(const open_run& run, std::int64_t id, bool as_json) {
  const storage::blob_store blobs(run.paths.blobs());
  const auto view = actors::view_sample(*run.reader, blobs, id);
  if (!view) return report("show", view.error());
  if (as_json) return print_json("show", actors::view_json(*view));
  return print_result("show", base::printable(actors::view_text(*view)));
}

/// Cells of the terminal that standard output is; 0 where it is none, so that what a program reads
/// does not depend on a window.
std::size_t terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

int show(const show_arguments& a) {
  const auto choice = choice_of(a);
  if (!choice) return report("show", choice.error());
  const auto run = open_samples(a.run);
  if (!run) return report("show", run.error());
  if (!run->reader) return say_nothing("show", a.run, run->why, a.json);
  if (a.sample) return show_sample(*run, *a.sample, a.json);
  const auto chosen = actors::choose_samples(*run->reader, *choice);
  if (!chosen) return report("show", chosen.error());
  if (chosen->samples.empty())
    return say_nothing("show", a.run, "has no sample that fits what was asked for", a.json);
  const storage::blob_store blobs(run->paths.blobs());
  // A group's completions are what a step is looked at for.
  const storage::blob_store* const texts = a.texts || a.step ? &blobs : nullptr;
  if (a.json) return print_json("show", actors::list_json(*chosen, texts));
  const std::size_t width = a.width ? static_cast<std::size_t>(*a.width) : terminal_width();
  return print_result("show", base::printable(actors::list_text(*chosen, texts, width)));
}

}  // namespace

int cmd_show(int argc, char** argv) {
  base::ignore_broken_pipes();
  CLI::App app(
      "quern show: what the model writes. Without more words: the samples of the newest gradient "
      "step, or where there is none the newest ones, a line each. Reads only, also while the run "
      "goes on");
  show_arguments a;
  app.add_option("run", a.run, "folder of a run, or its name below runs/")->required();
  CLI::Option* const sample =
      app.add_option("sample", a.sample,
                     "number of a sample: its prompt, exemplars, completion, verdict and end")
          ->check(whole_within(1, largest_id));
  const auto choosing = [&](CLI::Option* option) { return option->excludes(sample); };
  choosing(app.add_option("--step", a.step,
                          "samples that this gradient step used, by groups, with completions"))
      ->check(whole_within(1, largest_id));
  CLI::Option* const best =
      choosing(app.add_flag("--best", a.best, "the highest rewards of the run, or of --step"));
  choosing(app.add_flag("--worst", a.worst, "the lowest rewards"))->excludes(best);
  choosing(app.add_option("--verdict", a.verdict, "only samples with this verdict: wrong_value"));
  choosing(app.add_option("--task", a.task, "only samples of this task, by its name"));
  choosing(app.add_option("--limit", a.limit, "samples at most"))
      ->check(whole_within(1, 1'000'000))
      ->capture_default_str();
  choosing(app.add_flag("--text", a.texts, "with completions, where --step is not said"));
  choosing(app.add_option("--width", a.width,
                          "cells of a line: completions of a group stand side by side where two "
                          "have room, from 123 on; 0: one below another. Not given: the "
                          "terminal's, 0 where there is none"))
      ->check(whole_within(0, 10'000));
  app.add_flag("--json", a.json, "one JSON object (docs/formats/show.md)");
  if (const auto code = parse(app, argc, argv)) return *code;
  return show(a);
}

int cmd_why(int argc, char** argv) {
  base::ignore_broken_pipes();
  CLI::App app(
      "quern why: the life of a sample, from its prompt to a gradient step, as a list of events. "
      "Reads only, also while the run goes on");
  std::string run;
  std::int64_t sample = 0;
  bool as_json = false;
  app.add_option("run", run, "folder of a run, or its name below runs/")->required();
  app.add_option("sample", sample, "number of a sample; quern show RUN lists them")
      ->required()
      ->check(whole_within(1, largest_id));
  app.add_flag("--json", as_json, "one JSON object (docs/formats/show.md)");
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto opened = open_samples(run);
  if (!opened) return report("why", opened.error());
  if (!opened->reader) return say_nothing("why", run, opened->why, as_json);
  const auto record = actors::find_sample(*opened->reader, sample);
  if (!record) return report("why", record.error());
  if (as_json) return print_json("why", actors::life_json(*record));
  return print_result("why", base::printable(actors::life_text(*record)));
}

}  // namespace quern::tools
