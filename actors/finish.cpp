#include "actors/finish.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/config/device_class.hpp"
#include "actors/evaluation_set_run.hpp"
#include "actors/inspect/closing_words.hpp"
#include "actors/inspect/ledger_state.hpp"
#include "actors/monitor.hpp"
#include "actors/orchestrator/best_kernels.hpp"
#include "actors/orchestrator/search_start.hpp"
#include "actors/sft_run.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/program.hpp"
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

/// Builds of schema 1 called it so.
fs::path earlier_evaluation_set_file(const storage::run_paths& paths) {
  return paths.root / "panel.json";  // schema 1
}

/// For the words of a table: one, or more.
std::int64_t searched_tasks(const run_config& config) {
  if (config.tasks.source == "generated") return config.tasks.count;
  const auto members = suite_of(config);
  if (!members) return 1;
  return std::count_if(members->members.begin(), members->members.end(),
                       [](const env::suite_member& one) { return !one.held_out; });
}

/// What an earlier call measured; none: nothing, or it cannot be read.
std::optional<evaluation_set> read_evaluation_set(const run_config& config,
                                                  const storage::run_paths& paths,
                                                  const task_book& tasks) {
  const auto read = [&]() -> base::expected<evaluation_set> {
    QUERN_TRY(const std::string text, base::read_file(evaluation_set_file(paths)));
    QUERN_TRY(const base::json written, base::parse_json(text));
    return evaluation_set::read(config, tasks, written);
  }();
  if (read) return *read;
  if (!lacks_evaluation_set(config, paths))
    base::log_warn("evaluation_set", "{} cannot be used: {}", evaluation_set_file(paths).string(),
                   read.error().message);
  return std::nullopt;
}

/// None: it was interrupted.
base::expected<std::optional<evaluation_set>> measure_evaluation_set(const run_config& config,
                                                                     storage::run_directory& run,
                                                                     const task_book& tasks) {
  base::log_info("evaluation_set", "measuring the first and the last weights on {} prompts{}",
                 config.observe.evaluation_set_train + config.observe.evaluation_set_held_out,
                 config.observe.evaluation_set_swapped ? ", those with exemplars twice" : "");
  const storage::checkpoint_store checkpoints(run.paths().checkpoints());
  QUERN_TRY(const std::int64_t last, checkpoints.latest());
  fs::path first = config.policy.model;
  if (!fs::exists(first / "config.json")) {
    QUERN_TRY(first, base::share_folder(config.policy.model));
  }
  QUERN_TRY(auto measured, run_evaluation_set(config, run, tasks, first.string(),
                                              (checkpoints.folder_of(last) / "model").string()));
  if (measured)
    QUERN_CHECK(base::write_file_atomic(evaluation_set_file(run.paths()),
                                        base::dump_pretty(measured->to_json())));
  return measured;
}

/// What the first and the last weights make of exemplars; empty where no prompt showed any.
std::string use_text(const evaluation_set& measured) {
  std::string text;
  for (const bool held_out : {false, true})
    for (const bool swapped : {false, true}) {
      const exemplar_use before = measured.use(evaluation_set_side::first, held_out, swapped);
      const exemplar_use after = measured.use(evaluation_set_side::last, held_out, swapped);
      if (before.judged() + after.judged() == 0) continue;
      text += fmt::format("{:<22} {}, {} prompts\n",
                          fmt::format("{}, {}", swapped ? "swapped" : "exemplars",
                                      held_out ? "held out" : "trained"),
                          text_of(before, after), after.judged());
    }
  return text;
}

std::string evaluation_set_text(const run_config& config, const evaluation_set& measured) {
  const auto seed = static_cast<std::uint64_t>(config.observe.evaluation_set_seed);
  std::string text = "\n" + measured.table() + "\n";
  // A half that was not asked has no line.
  const auto add_gain = [&](std::string_view name, const evaluation_set_half& half) {
    if (!half.first.empty() || half.left_out > 0) text += gain_words(name, half, seed);
  };
  add_gain("mean reward, trained", measured.train());
  add_gain("mean reward, held out", measured.held_out());
  return text + use_text(measured);
}

}  // namespace

fs::path evaluation_set_file(const storage::run_paths& paths) {
  std::error_code ignored;
  const fs::path file = paths.root / "evaluation_set.json";
  const fs::path earlier = earlier_evaluation_set_file(paths);
  return fs::exists(earlier, ignored) && !fs::exists(file, ignored) ? earlier : file;
}

base::expected<storage::ledger_position> position_of(const storage::run_paths& paths) {
  QUERN_TRY(const auto from, read_run(paths));
  return from.ledger->position();
}

base::expected<search_book> search_of(const run_config& config, const storage::run_paths& paths) {
  QUERN_TRY(const auto from, read_run(paths));
  const storage::blob_store blobs(paths.blobs());
  QUERN_TRY(const auto archive, storage::archive::open(*from.db, blobs));
  return search_so_far(config, *from.ledger, *archive, searched_tasks(config));
}

base::expected<run_goal> goal_of(const run_config& config, const storage::run_paths& paths) {
  if (config.stage == "sft") {
    QUERN_TRY(const std::int64_t step, durable_sft_step(paths));
    return run_goal{step, config.learner.steps, 0, "step"};
  }
  QUERN_TRY(const auto from, read_run(paths));
  if (!is_search(config)) {
    QUERN_TRY(const auto at, from.ledger->position());
    return run_goal{at.checkpoint ? at.checkpoint->version : 0, config.learner.steps, 0, "step"};
  }
  QUERN_TRY(const auto counts, from.ledger->counts());
  QUERN_TRY(const std::int64_t spent, evaluations_spent(*from.ledger));
  return run_goal{spent, config.run.budget_evaluations, counts.in_flight(), "evaluation"};
}

base::status check_ledger(const storage::run_paths& paths) {
  QUERN_TRY(const auto db,
            storage::database::open(paths.database(), storage::database::access::read));
  return db->quick_check();
}

base::expected<bool> is_untouched(const storage::run_paths& paths) {
  // One that is empty is made anew like one that is missing.
  const auto there = has_ledger(paths);
  if (there) return !*there;
  return base::fail(base::errc::not_found, "{}; to begin anew, start another run",
                    there.error().message);
}

base::expected<std::optional<std::string>> finish_run(const run_config& config,
                                                      storage::run_directory& run,
                                                      const task_book& tasks,
                                                      missing_evaluation_set how) {
  QUERN_TRY(const auto from, read_run(run.paths()));
  QUERN_TRY(const ledger_state state, read_ledger_state(run.paths()));
  QUERN_TRY(const auto verdicts, count_verdicts(*from.ledger));
  std::string text = account_words(state) + "\n" + drop_lines(state.drop_reasons);
  if (!verdicts.empty()) text += fmt::format("Verdicts of samples: {}.\n", count_words(verdicts));
  if (is_search(config)) {
    QUERN_TRY(const search_book found, search_of(config, run.paths()));
    text += found.table_head() + "\n" + found.table_row() + "\n";
  } else if (const std::string stale = staleness_words(state.ages); !stale.empty()) {
    text += stale + "\n";
  }
  for (const std::string& warning :
       read_metrics_so_far(run.paths().metrics(), config.learner.steps, trained_steps(state))
           .warnings())
    text += fmt::format("warning: {}\n", warning);
  std::optional<evaluation_set> measured;
  if (config.observe.evaluation_set) {
    measured = read_evaluation_set(config, run.paths(), tasks);
    if (!measured && how == missing_evaluation_set::measure) {
      QUERN_TRY(measured, measure_evaluation_set(config, run, tasks));
      if (!measured) return std::optional<std::string>();
    }
    text += measured ? evaluation_set_text(config, *measured)
                     : "the first and the last weights were not compared yet\n";
  }
  const storage::blob_store blobs(run.paths().blobs());
  QUERN_TRY(const auto archive, storage::archive::open(*from.db, blobs));
  QUERN_TRY(const std::string device_class, device_class_of(config));
  const fs::path folder = run.paths().root / "kernels";
  QUERN_TRY(const auto kernels,
            write_best_kernels(
                folder, config, tasks,
                {archive.get(), from.ledger.get(), measured ? &*measured : nullptr, device_class}));
  if (!kernels.empty()) text += "\n" + fastest_table(kernels) + "\n";
  text += fmt::format("best kernels of {} tasks with their verdicts: {}\n", kernels.size(),
                      folder.string());
  // Last: a run with a report has everything else.
  QUERN_CHECK(base::write_file_atomic(run.paths().report(), text));
  return std::optional<std::string>(std::move(text));
}

void unfinish_run(const storage::run_paths& paths) {
  std::error_code ignored;
  fs::remove(paths.report(), ignored);
  fs::remove(evaluation_set_file(paths), ignored);
  fs::remove(earlier_evaluation_set_file(paths), ignored);
}

bool lacks_evaluation_set(const run_config& config, const storage::run_paths& paths) {
  std::error_code ignored;
  return config.observe.evaluation_set && !fs::exists(evaluation_set_file(paths), ignored);
}

bool is_finished(const run_config& config, const storage::run_paths& paths) {
  std::error_code ignored;
  return !lacks_evaluation_set(config, paths) && fs::exists(paths.report(), ignored);
}

}  // namespace quern::actors
