// quern status: where a run stands, as its control process says, or its files where none is there.
#include <chrono>
#include <deque>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "actors/config/config_file.hpp"
#include "actors/decide/bottleneck.hpp"
#include "actors/decide/device_board.hpp"
#include "actors/decide/progress.hpp"
#include "actors/decide/role_report.hpp"
#include "actors/finish.hpp"
#include "actors/inspect/ledger_state.hpp"
#include "actors/monitor.hpp"
#include "actors/sft_run.hpp"
#include "base/text.hpp"
#include "base/write_signals.hpp"
#include "storage/jsonl.hpp"
#include "storage/run_directory.hpp"
#include "storage/run_lock.hpp"
#include "tools/cli/ask_run.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/find_run.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/tell.hpp"

namespace quern::tools {
namespace {

/// What the roles did when the run last went on: the newest steps of metrics.jsonl, as many as the
/// window of one that goes on holds. Nothing: it made none that tell.
std::optional<actors::loop_time> read_last_steps(const storage::run_paths& paths) {
  constexpr base::nanoseconds_t window = actors::role_times::options{}.window;
  std::deque<actors::loop_time> steps;
  actors::loop_time seen;
  const auto take = [&](const base::json& line) -> base::status {
    const auto step = actors::read_loop_time(line);
    if (!step) return {};
    steps.push_back(*step);
    seen += *step;
    while (seen.wall - steps.front().wall >= window) {
      seen -= steps.front();
      steps.pop_front();
    }
    return {};
  };
  (void)storage::read_jsonl_past_damage(paths.metrics(), take);
  return steps.empty() ? std::nullopt : std::optional(seen);
}

/// Of a run that goes on, as its control process says; else by its files.
std::optional<actors::loop_time> read_loop(const storage::run_paths& paths,
                                           const base::expected<base::json>& live) {
  if (live && live->contains("loop")) {
    if (const auto told = actors::read_loop_time((*live)["loop"])) return *told;
  }
  return read_last_steps(paths);
}

/// Shares of the last minutes do not tell that all devices went into quarantine just now.
actors::bottleneck held_back(const actors::loop_time& seen,
                             const base::expected<base::json>& live) {
  const bool out = live && live->contains("hosts") && actors::no_device_works((*live)["hosts"]);
  return out ? actors::held_back_by_quarantine() : actors::find_bottleneck(seen);
}

/// What is wrong with the policy, and what metrics.jsonl lacks: as the control process says, else
/// by what it has written.
base::json read_warnings(const storage::run_paths& paths, const actors::ledger_state& ledger,
                         const base::expected<base::json>& live) {
  if (live && live->contains("warnings")) return (*live)["warnings"];
  return actors::read_metrics_so_far(paths.metrics(), ledger.position.version,
                                     actors::trained_steps(ledger))
      .warnings();
}

void print_loop(const actors::loop_time& seen, const base::expected<base::json>& live) {
  const std::string span = actors::duration_text(seen.wall);
  const bool now = live && live->contains("loop");
  tell(stdout, "{}",
       actors::role_table(seen, now ? "last " + span : "last " + span + " of steps",
                          held_back(seen, live)));
}

base::ordered_json loop_json(const std::optional<actors::loop_time>& seen,
                             const base::expected<base::json>& live) {
  if (!seen) return {};
  base::ordered_json told = actors::to_json(*seen);
  told["held_back"] = actors::to_json(held_back(*seen, live));
  return told;
}

/// What the files of a fine-tuning run tell; it has no ledger.
base::expected<base::json> read_sft(const storage::run_paths& paths) {
  QUERN_TRY(const auto config, actors::load_run_config(paths.config(), {}));
  QUERN_TRY(const auto at, actors::sft_position_of(config, paths));
  return base::json{{"stage", "sft"},
                    {"records", at.records},
                    {"checkpoint", at.step},
                    {"steps", config.learner.steps}};
}

void print_sft(const base::json& position) {
  tell(stdout, "  {} records in the corpus, last checkpoint {} of {} steps\n",
       position["records"].get<std::int64_t>(), position["checkpoint"].get<std::int64_t>(),
       position["steps"].get<std::int64_t>());
}

/// The goal is reached and the closing comparison, if there is one, is made.
bool is_complete(const storage::run_paths& paths) {
  const auto config = actors::load_run_config(paths.config(), {});
  if (!config) return false;
  const auto goal = actors::goal_of(*config, paths);
  return goal && goal->reached() && (config->stage == "sft" || actors::is_finished(*config, paths));
}

/// Of a search whose control process does not tell it.
std::string search_line(const storage::run_paths& paths) {
  const auto config = actors::load_run_config(paths.config(), {});
  if (!config) return {};
  const auto found = actors::search_of(*config, paths);
  return found ? fmt::format("  {}\n", found->summary()) : std::string();
}

std::string_view state_text(bool goes_on, bool complete) {
  if (goes_on) return "running";
  return complete ? "complete" : "not running (quern resume goes on)";
}

/// Only where it is worth a person's attention.
void print_losses(const base::json& lost) {
  if (!lost.value("too_many", false)) return;
  tell(stdout, "  LOST {} of the last {} samples, because evaluators could not judge them: {}\n",
       lost.value("samples", 0), lost.value("of", 0), lost.value("newest", ""));
}

/// All that is known of a run at one moment.
struct run_look {
  storage::run_paths paths;
  bool tuning = false, searching = false, running = false, complete = false;
  actors::ledger_state ledger;  ///< not in stage sft
  base::json sft;               ///< in stage sft
  base::expected<base::json> live;
  std::optional<actors::loop_time> loop;
  base::json warnings = base::json::array();
};

base::expected<run_look> look_at(const storage::run_paths& paths) {
  run_look seen;
  seen.paths = paths;
  QUERN_TRY(const base::json meta, storage::read_meta(paths));
  const std::string stage = base::get<std::string>(meta, "stage").value_or("");
  seen.tuning = stage == "sft";
  seen.searching = stage == "search";
  if (seen.tuning) {
    QUERN_TRY(seen.sft, read_sft(paths));
  } else {
    QUERN_TRY(seen.ledger, actors::read_ledger_state(paths));
  }
  const auto locked = storage::is_locked(paths.lock());
  seen.running = locked && *locked;
  if (seen.running) seen.live = ask_run(paths, "status");
  seen.complete = !seen.running && is_complete(paths);
  seen.loop = read_loop(paths, seen.live);
  if (!seen.tuning) seen.warnings = read_warnings(paths, seen.ledger, seen.live);
  return seen;
}

int print_json(const run_look& seen) {
  const base::ordered_json told{
      {"quern_status", 2},
      {"running", seen.running},
      {"live", seen.live.value_or(base::json())},
      {seen.tuning ? "sft" : "ledger", seen.tuning ? seen.sft : actors::to_json(seen.ledger)},
      {"warnings", seen.warnings},
      {"loop", loop_json(seen.loop, seen.live)}};
  return print_result("status", base::dump(told) + "\n");
}

/// Verdicts as control counts them, the most first.
std::string verdict_counts(const base::json& verdicts) {
  std::map<std::string, std::int64_t> counts;
  for (const auto& [name, count] : verdicts.items())
    if (count.is_number_integer()) counts[name] = count.get<std::int64_t>();
  return actors::count_words(counts);
}

void print_ledger(const run_look& seen) {
  const actors::ledger_state& ledger = seen.ledger;
  if (!seen.searching && ledger.position.incarnation > 0)
    tell(stdout, "  version {} of the weights; {}; incarnation {}\n", ledger.position.version,
         ledger.position.checkpoint ? fmt::format("the newest checkpoint has version {}",
                                                  ledger.position.checkpoint->version)
                                    : "no checkpoint yet",
         ledger.position.incarnation);
  tell(stdout, "  {}\n", actors::account_words(ledger));
  const std::string drops = actors::drop_lines(ledger.drop_reasons);
  for (const std::string_view line : base::split(drops, '\n'))
    if (!line.empty()) tell(stdout, "  {}\n", line);
  const std::string stale = actors::staleness_words(ledger.ages);
  if (!stale.empty()) tell(stdout, "  {}\n", stale);
}

void print_text(const run_look& seen) {
  const auto& live = seen.live;
  tell(stdout, "{}: {}\n", seen.paths.root.string(), state_text(seen.running, seen.complete));
  const bool told = live && live->contains("progress");
  if (told) {
    tell(stdout, "  {}\n", (*live)["progress"].get<std::string>());
    if (!(*live)["verdicts"].empty())
      tell(stdout, "  verdicts since control started: {}\n", verdict_counts((*live)["verdicts"]));
  }
  if (seen.searching && !told) tell(stdout, "{}", search_line(seen.paths));
  for (const base::json& warning : seen.warnings)
    tell(stdout, "  warning: {}\n", warning.get<std::string>());
  if (live && live->contains("hosts")) tell(stdout, "{}", actors::host_table((*live)["hosts"]));
  if (live && live->contains("aside")) tell(stdout, "{}", actors::aside_table((*live)["aside"]));
  if (live && live->contains("lost")) print_losses((*live)["lost"]);
  if (seen.loop) print_loop(*seen.loop, live);
  seen.tuning ? print_sft(seen.sft) : print_ledger(seen);
}

struct status_arguments {
  std::string run;
  bool json = false;
  double every_s = 0;  ///< 0: once
};

/// Until the run has ended. A terminal is cleared each time; elsewhere an empty line is between.
int show_status(const status_arguments& a) {
  const bool clears = ::isatty(STDOUT_FILENO) != 0 && !a.json;
  for (bool first = true;; first = false) {
    // A chain may have begun its next stage.
    const auto folder = find_run(a.run);
    if (!folder) return report("status", folder.error());
    const auto seen = look_at({*folder});
    if (!seen) return report("status", seen.error());
    if (a.every_s > 0 && clears) tell(stdout, "\x1b[H\x1b[2J");
    if (!first && !clears && !a.json) tell(stdout, "\n");
    if (!a.json) print_text(*seen);
    if (const int printed = a.json ? print_json(*seen) : done; printed != done) return printed;
    if (a.every_s == 0 || !seen->running || std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      return done;
    std::this_thread::sleep_for(std::chrono::duration<double>(a.every_s));
  }
}

}  // namespace

int cmd_status(int argc, char** argv) {
  base::ignore_broken_pipes();
  CLI::App app("quern status: where a run stands");
  status_arguments a;
  app.add_option("run", a.run, "folder of a run, or its name below runs/")->required();
  app.add_flag("--json", a.json,
               "one JSON object (docs/formats/status.md); with --watch one a line");
  app.add_option("--watch", a.every_s, "again each so many seconds (2), until the run has ended")
      ->expected(0, 1)
      ->default_str("2")
      ->check(number_within(0.1, 3600));
  if (const auto code = parse(app, argc, argv)) return *code;
  return show_status(a);
}

}  // namespace quern::tools
