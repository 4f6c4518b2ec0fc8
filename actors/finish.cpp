#include "actors/finish.hpp"

#include <fmt/format.h>

#include "actors/config/device_class.hpp"
#include "actors/measured_as.hpp"
#include "actors/panel_run.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/program.hpp"
#include "env/task/task_codec.hpp"
#include "storage/archive.hpp"
#include "storage/checkpoint.hpp"
#include "storage/ledger.hpp"

namespace quern::actors {
namespace {

namespace fs = std::filesystem;

/// What is needed to read a run that has ended.
struct reading {
  std::unique_ptr<storage::database> db;
  std::unique_ptr<storage::ledger> ledger;
};

base::expected<reading> read_run(const storage::run_paths& paths) {
  reading made;
  QUERN_TRY(made.db, storage::database::open(paths.database(), storage::database::access::read));
  QUERN_TRY(made.ledger, storage::ledger::open(*made.db));
  return made;
}

/// Generated tasks that have a kernel, as a suite beside their kernels, so that quern bench can
/// measure them again, over ATen too.
base::status write_suite(const fs::path& folder, const std::vector<const book_task*>& tasks) {
  std::string held_out;
  for (const book_task* task : tasks) {
    const std::string& name = task->task->name;
    QUERN_CHECK(base::write_file_atomic(folder / (name + ".task.yaml"), env::to_yaml(*task->task)));
    if (task->held_out) held_out += (held_out.empty() ? "" : ", ") + name;
  }
  return base::write_file_atomic(
      folder / "suite.yaml",
      fmt::format("quern_suite: 1\nsplit: {{by: task, held_out: [{}]}}\n", held_out));
}

/// The best kernel of each task that has one, of the run or of the panel, as NAME.cpp (NAME.cu in
/// lane cuda) and NAME.verdict.json; how many.
base::expected<int> write_kernels(const run_config& config, const storage::run_paths& paths,
                                  const task_book& tasks, const reading& from,
                                  const std::optional<panel>& measured) {
  const storage::blob_store blobs(paths.blobs());
  QUERN_TRY(const auto archive, storage::archive::open(*from.db, blobs));
  const fs::path folder = paths.root / "kernels";
  QUERN_CHECK(base::make_folders(folder));
  QUERN_TRY(const std::string device_class, device_class_of(config));
  const std::string_view ending = lane_of(config) == env::lane::cuda ? ".cu" : ".cpp";
  const auto file_of = [&](const book_task& task) {
    return folder / fmt::format("{}{}", task.task->name, ending);
  };
  int written = 0;
  std::vector<const book_task*> generated;
  const auto note = [&](const book_task& task) {
    ++written;
    if (config.tasks.source == "generated") generated.push_back(&task);
  };
  for (const book_task& task : tasks.tasks()) {
    QUERN_TRY(const auto best,
              archive->best({task.id, device_class, measured_as(config)}, INT64_MAX));
    const bool of_run = best && best->sample != 0;
    const auto asked = measured ? measured->best(task.id) : std::nullopt;
    if (asked && (!of_run || asked->speedup_e2 > best->speedup_e2)) {
      QUERN_CHECK(base::write_file_atomic(file_of(task), asked->source));
      QUERN_CHECK(base::write_file_atomic(folder / (task.task->name + ".verdict.json"),
                                          asked->verdict + "\n"));
      note(task);
      continue;
    }
    if (!of_run) continue;
    QUERN_TRY(const std::string text, archive->text(*best));
    QUERN_CHECK(base::write_file_atomic(file_of(task), text));
    if (best->verdict_id) {
      QUERN_TRY(const auto verdict, from.ledger->verdict(*best->verdict_id));
      QUERN_CHECK(base::write_file_atomic(folder / (task.task->name + ".verdict.json"),
                                          verdict.row.json + "\n"));
    }
    note(task);
  }
  if (!generated.empty()) QUERN_CHECK(write_suite(folder, generated));
  return written;
}

fs::path panel_file(const storage::run_paths& paths) {
  return paths.root / "panel.json";
}

std::string gain_line(const char* name, const panel_half& half, std::uint64_t seed) {
  // Nothing is a multiple of nothing.
  const std::string gain = half.mean_first() > 0
                               ? fmt::format("x{:.2f} (97.5 % of bootstrap draws above x{:.2f})",
                                             half.gain(), half.gain_lower_bound(seed))
                               : "(no reward before)";
  return fmt::format("{:<22} {:.3f} > {:.3f}   {}, {} prompts\n", name, half.mean_first(),
                     half.mean_last(), gain, half.first.size());
}

}  // namespace

base::expected<storage::ledger_position> position_of(const storage::run_paths& paths) {
  QUERN_TRY(const auto from, read_run(paths));
  return from.ledger->position();
}

base::expected<std::optional<std::string>> finish_run(const run_config& config,
                                                      storage::run_directory& run,
                                                      const task_book& tasks) {
  QUERN_TRY(const auto from, read_run(run.paths()));
  QUERN_TRY(const auto counts, from.ledger->counts());
  QUERN_TRY(const auto ages, from.ledger->ages());
  std::string text = fmt::format("samples issued {}, trained {}, dropped {}; the law {}\n",
                                 counts.issued_ever, counts.of(storage::sample_state::trained),
                                 counts.of(storage::sample_state::dropped),
                                 counts.law_holds() ? "holds" : "DOES NOT HOLD");
  text += "steps behind when used:";
  for (const auto& [age, count] : ages.by_age)
    text += fmt::format(" {}: {}", age, count);
  text += fmt::format("; with tokens of several versions: {}\n", ages.mixed);
  std::optional<panel> measured;
  if (config.observe.panel) {
    base::log_info("panel", "measuring the first and the last weights on {} prompts",
                   config.observe.panel_train + config.observe.panel_held_out);
    const storage::checkpoint_store checkpoints(run.paths().checkpoints());
    QUERN_TRY(const std::int64_t last, checkpoints.latest());
    fs::path first = config.policy.model;
    if (!fs::exists(first / "config.json")) {
      QUERN_TRY(first, base::share_folder(config.policy.model));
    }
    QUERN_TRY(measured, run_panel(config, run, tasks, first.string(),
                                  (checkpoints.folder_of(last) / "model").string()));
    if (!measured) return std::optional<std::string>();
    QUERN_CHECK(
        base::write_file_atomic(panel_file(run.paths()), base::dump_pretty(measured->to_json())));
    const auto seed = static_cast<std::uint64_t>(config.observe.panel_seed);
    text += "\n" + measured->table() + "\n";
    text += gain_line("mean reward, trained", measured->train(), seed);
    if (!measured->held_out().first.empty())
      text += gain_line("mean reward, held out", measured->held_out(), seed);
  }
  QUERN_TRY(const int kernels, write_kernels(config, run.paths(), tasks, from, measured));
  text += fmt::format("best kernels of {} tasks with their verdicts: {}\n", kernels,
                      (run.paths().root / "kernels").string());
  return std::optional<std::string>(std::move(text));
}

bool is_finished(const run_config& config, const storage::run_paths& paths) {
  std::error_code ignored;
  return !config.observe.panel || fs::exists(panel_file(paths), ignored);
}

}  // namespace quern::actors
