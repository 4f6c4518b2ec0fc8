// What is kept of a search's best kernel.
#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "actors/allowed_by.hpp"
#include "actors/config/begun_with.hpp"
#include "actors/config/device_class.hpp"
#include "actors/finish.hpp"
#include "actors/measured_as.hpp"
#include "actors/orchestrator/lineage.hpp"
#include "actors/orchestrator/search_start.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/file.hpp"
#include "env/judge/evaluation_request.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"
#include "env/verdict/verdict.hpp"
#include "tools/cli/optimize.hpp"
#include "tools/cli/tell.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

/// Of the best kernel alone, however short those of the search were.
constexpr double least_seconds_again = 0.5;
/// While they are noisy, each of twice the time of the one before.
constexpr int most_measurements_again = 3;

struct best_of_run {
  actors::search_book found;
  std::optional<actors::lineage> chain;
};

base::expected<best_of_run> read_best(const actors::run_config& config,
                                      const storage::run_paths& paths, const std::string& task) {
  best_of_run made;
  QUERN_TRY(made.found, actors::search_of(config, paths));
  QUERN_TRY(const auto db,
            storage::database::open(paths.database(), storage::database::access::read));
  QUERN_TRY(const auto ledger, storage::ledger::open(*db));
  const storage::blob_store blobs(paths.blobs());
  QUERN_TRY(const auto archive, storage::archive::open(*db, blobs));
  QUERN_TRY(const std::string device_class, actors::device_class_of(config));
  QUERN_TRY(made.chain, actors::lineage_of_best(*archive, *ledger,
                                                {task, device_class, actors::measured_as(config)}));
  return made;
}

/// In processes that have measured nothing before, with hidden inputs of its own, for `seconds`.
base::expected<env::verdict> judge_for(double seconds, const actors::run_config& config,
                                       const actors::task_book& tasks, const std::string& source) {
  env::evaluator_options options;
  options.sandbox_required = config.env.sandbox == "required";
  options.static_screen = config.env.static_screen;
  options.time_budget_s = seconds;
  options.noise_limit = config.env.noise_limit;
  options.core = static_cast<int>(config.env.core);
  options.confirm_at_once = true;
  const env::lane& lane = actors::lane_of(config);
  if (actors::on_gpus(config)) {
    QUERN_TRY(const auto gpus, actors::gpus_of(config));
    options.gpu = gpus.front();
    options.on_gpu = true;
  }
  QUERN_TRY(const auto judge, lane.open_judge(options));
  QUERN_TRY(const env::suite of, actors::suite_of(config));
  env::evaluation_request request;
  request.subject = tasks.tasks().front().task;
  request.source = source;
  request.protocol = actors::measured_as(config);
  request.policy = actors::allowed_by(config, of.policy);
  const std::int64_t above = tasks.rules().recheck_above_e2;
  request.recheck_above =
      static_cast<double>(above > 0 ? above : lane.usual_recheck_above_e2) / 100;
  return judge->evaluate(request);
}

/// Once more, and longer, where the verdict is noisy: that says nothing of the kernel.
base::expected<env::verdict> judge_again(const actors::run_config& config,
                                         const actors::task_book& tasks,
                                         const std::string& source) {
  double seconds = std::max(config.env.time_budget_s, least_seconds_again);
  for (int left = most_measurements_again;; seconds *= 2) {
    QUERN_TRY(const auto verdict, judge_for(seconds, config, tasks, source));
    if (verdict.kind != env::verdict_kind::noisy || --left == 0) return verdict;
  }
}

base::ordered_json times_of(const actors::found_kernel& kernel) {
  base::ordered_json told = {{"speedup_e2", kernel.speedup_e2}};
  if (kernel.high_e2 > 0) {
    told["low_e2"] = kernel.low_e2;
    told["high_e2"] = kernel.high_e2;
  }
  return told;
}

std::string times_text(const actors::found_kernel& kernel) {
  const auto e2 = [](std::int64_t value) { return static_cast<double>(value) / 100; };
  if (kernel.high_e2 == 0) return fmt::format("{:.2f}x", e2(kernel.speedup_e2));
  return fmt::format("{:.2f}x (95 % interval {:.2f} to {:.2f})", e2(kernel.speedup_e2),
                     e2(kernel.low_e2), e2(kernel.high_e2));
}

/// What an earlier call measured of this very kernel; none where that was noisy.
std::optional<env::verdict> kept_verdict(const fs::path& folder, std::int64_t variant) {
  const auto summary = base::read_file(folder / "optimize.json");
  const auto text = base::read_file(folder / "best.verdict.json");
  if (!summary || !text) return std::nullopt;
  const auto read = base::parse_json(*summary);
  if (!read || !read->contains("best") || (*read)["best"].is_null()) return std::nullopt;
  if (base::get<std::int64_t>((*read)["best"], "variant").value_or(0) != variant)
    return std::nullopt;
  const auto verdict = env::parse_verdict(*text);
  if (!verdict || verdict->kind == env::verdict_kind::noisy) return std::nullopt;
  return *verdict;
}

base::ordered_json summary_of(const actors::run_config& config, const best_of_run& best,
                              const std::string& task) {
  base::ordered_json verdicts = base::ordered_json::object();
  for (const auto& [name, count] : best.found.verdicts())
    verdicts[name] = count;
  return {{"quern_optimize", 1},
          {"task", task},
          {"policy", config.policy.model},
          {"seed", config.run.seed},
          {"exemplars", config.replay.exemplars},
          {"budget", best.found.budget()},
          {"spent", best.found.spent()},
          {"verdicts", std::move(verdicts)},
          {"best", nullptr}};
}

}  // namespace

base::status keep_best(const actors::run_config& config, storage::run_directory& run,
                       bool explain) {
  const fs::path folder = run.paths().root;
  QUERN_TRY(const auto tasks, actors::task_book::make(config));
  // Nothing that was found is of a task that was edited since.
  QUERN_CHECK(actors::check_tasks_begun_with(config, folder, run.meta(), tasks));
  const std::string& task = tasks.tasks().front().id;
  QUERN_TRY(const best_of_run best, read_best(config, run.paths(), task));
  base::ordered_json summary = summary_of(config, best, task);
  if (!best.chain) {
    tell(stdout, "no kernel of {} evaluations is right; the verdicts stand in {}\n",
         best.found.spent(), (folder / "optimize.json").string());
    return base::write_file_atomic(folder / "optimize.json", base::dump_pretty(summary));
  }
  const actors::ancestor& last = best.chain->back();
  tell(stdout, "best of {} evaluations: {}, sample {}\n", best.found.spent(),
       times_text(last.kernel), last.kernel.sample);
  auto again = kept_verdict(folder, last.variant);
  if (!again) {
    QUERN_TRY(again, judge_again(config, tasks, last.source));
  }
  const actors::found_kernel measured = actors::found_kernel_of(*again, last.kernel.sample);
  const bool right = again->kind == env::verdict_kind::ok;
  tell(stdout, "measured again in fresh processes: {}\n",
       right ? times_text(measured) : env::summary(*again));
  base::ordered_json told = {{"variant", last.variant},
                             {"sample", last.kernel.sample},
                             {"generation", last.generation},
                             {"found", times_of(last.kernel)},
                             {"again", times_of(measured)}};
  told["again"]["verdict"] = env::name_of(again->kind);
  summary["best"] = std::move(told);
  const fs::path kernel = folder / ("best" + std::string(actors::lane_of(config).file_ending)),
                 verdict = folder / "best.verdict.json", chain = folder / "best.lineage.json";
  QUERN_CHECK(base::write_file_atomic(kernel, last.source));
  QUERN_CHECK(base::write_file_atomic(verdict, base::dump(env::to_json(*again)) + "\n"));
  QUERN_CHECK(base::write_file_atomic(chain, base::dump_pretty(actors::to_json(*best.chain))));
  // Last: it says which kernel the others are of.
  QUERN_CHECK(base::write_file_atomic(folder / "optimize.json", base::dump_pretty(summary)));
  tell(stdout, "kernel {}\nverdict {}\nlineage {}\n", kernel.string(), verdict.string(),
       chain.string());
  if (explain) tell(stdout, "\n{}", actors::text_of(*best.chain));
  return {};
}

}  // namespace quern::tools
