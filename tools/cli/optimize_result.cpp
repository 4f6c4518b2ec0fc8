// What is kept of a search's best kernel.
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "actors/allowed_by.hpp"
#include "actors/config/begun_with.hpp"
#include "actors/config/device_class.hpp"
#include "actors/decide/finalists.hpp"
#include "actors/finish.hpp"
#include "actors/measured_as.hpp"
#include "actors/orchestrator/lineage.hpp"
#include "actors/orchestrator/search_start.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/random.hpp"
#include "env/judge/evaluation_request.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"
#include "env/verdict/verdict.hpp"
#include "tools/cli/optimize.hpp"
#include "tools/cli/tell.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

/// However short the measurements of the search were.
constexpr double least_seconds_again = 0.5;

struct found_by_run {
  actors::search_book search;
  /// That the search does not tell apart, the fastest first; empty: no kernel is right.
  std::vector<actors::ancestor> finalists;
  std::vector<actors::lineage> chains;  ///< of each
};

base::expected<found_by_run> read_found(const actors::run_config& config,
                                        const storage::run_paths& paths, const std::string& task) {
  found_by_run made;
  QUERN_TRY(made.search, actors::search_of(config, paths));
  QUERN_TRY(const auto db,
            storage::database::open(paths.database(), storage::database::access::read));
  QUERN_TRY(const auto ledger, storage::ledger::open(*db));
  const storage::blob_store blobs(paths.blobs());
  QUERN_TRY(const auto archive, storage::archive::open(*db, blobs));
  QUERN_TRY(const std::string device_class, actors::device_class_of(config));
  QUERN_TRY(
      made.finalists,
      actors::fastest_of_run(*archive, *ledger, {task, device_class, actors::measured_as(config)},
                             actors::most_finalists));
  std::vector<actors::found_kernel> kernels;
  for (const actors::ancestor& one : made.finalists)
    kernels.push_back(one.kernel);
  made.finalists.resize(actors::count_finalists(kernels));
  for (const actors::ancestor& one : made.finalists) {
    QUERN_TRY(actors::lineage chain, actors::lineage_of(*archive, *ledger, one.variant));
    made.chains.push_back(std::move(chain));
  }
  return made;
}

/// Judges kernels of a search again, each time in processes that have measured nothing before, with
/// hidden inputs of their own.
class closing_judge {
 public:
  /// Both must outlive it.
  closing_judge(const actors::run_config& config, const actors::task_book& tasks)
      : config_(config), tasks_(tasks) {}

  base::expected<env::verdict> judge(const std::string& source) {
    return actors::judge_while_noisy(std::max(config_.env.time_budget_s, least_seconds_again),
                                     [&](double seconds) { return judge_for(seconds, source); });
  }

 private:
  base::expected<env::verdict> judge_for(double seconds, const std::string& source) {
    env::evaluator_options options;
    options.sandbox_required = config_.env.sandbox == "required";
    options.static_screen = config_.env.static_screen;
    options.time_budget_s = seconds;
    options.noise_limit = config_.env.noise_limit;
    options.core = static_cast<int>(config_.env.core);
    options.confirm_at_once = true;
    const env::lane& lane = actors::lane_of(config_);
    if (actors::on_gpus(config_)) {
      QUERN_TRY(const auto gpus, actors::gpus_of(config_));
      options.gpu = gpus.front();
      options.on_gpu = true;
    }
    QUERN_TRY(const auto judge, lane.open_judge(options));
    QUERN_TRY(const env::suite of, actors::suite_of(config_));
    env::evaluation_request request;
    request.subject = tasks_.tasks().front().task;
    request.source = source;
    request.seed = base::random_stream(static_cast<std::uint64_t>(config_.run.seed),
                                       "closing measurement", {++judged_})
                       .next_u64();
    request.protocol = actors::measured_as(config_);
    request.policy = actors::allowed_by(config_, of.policy);
    const std::int64_t above = tasks_.rules().recheck_above_e2;
    request.recheck_above =
        static_cast<double>(above > 0 ? above : lane.usual_recheck_above_e2) / 100;
    return judge->evaluate(request);
  }

  const actors::run_config& config_;
  const actors::task_book& tasks_;
  std::uint64_t judged_ = 0;
};

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

std::vector<std::int64_t> variants_of(const std::vector<actors::ancestor>& kernels) {
  std::vector<std::int64_t> ids;
  for (const actors::ancestor& one : kernels)
    ids.push_back(one.variant);
  return ids;
}

struct kept_finalist {
  std::size_t index = 0;
  env::verdict again;
};

/// What an earlier call chose of these very finalists, and measured of it; none where that was
/// noisy.
std::optional<kept_finalist> read_kept(const actors::run_config& config, const fs::path& folder,
                                       const std::vector<actors::ancestor>& finalists) {
  const auto summary = base::read_file(folder / "optimize.json");
  const auto text = base::read_file(folder / "best.verdict.json");
  if (!summary || !text) return std::nullopt;
  const auto read = base::parse_json(*summary);
  if (!read || !read->contains("best") || !(*read)["best"].is_object()) return std::nullopt;
  const auto& best = (*read)["best"];
  const std::vector<std::int64_t> ids = variants_of(finalists);
  if (best.value("finalists", base::json()) != base::json(ids)) return std::nullopt;
  const auto chosen = std::ranges::find(ids, base::get<std::int64_t>(best, "variant").value_or(0));
  if (chosen == ids.end()) return std::nullopt;
  const auto index = static_cast<std::size_t>(chosen - ids.begin());
  const auto verdict = env::parse_verdict(*text);
  // A call that was cut off may have left the verdict of another one.
  const auto source = base::to_hex(actors::lane_of(config).identity(finalists[index].source));
  if (!verdict || verdict->kind == env::verdict_kind::noisy || verdict->source != source)
    return std::nullopt;
  return kept_finalist{index, *verdict};
}

struct ranked_finalists {
  std::vector<std::size_t> order;   ///< in which they are to be kept
  std::vector<env::verdict> again;  ///< of each; none where there is one alone
};

base::expected<ranked_finalists> rank(closing_judge& judge,
                                      const std::vector<actors::ancestor>& finalists) {
  if (finalists.size() == 1) return ranked_finalists{{0}, {}};
  tell(stdout, "the search does not tell its {} fastest apart; measured again:\n",
       finalists.size());
  std::vector<env::verdict> again;
  for (const actors::ancestor& one : finalists) {
    QUERN_TRY(again.emplace_back(), judge.judge(one.source));
    const env::verdict& last = again.back();
    tell(stdout, "  sample {}: found {}, again {}\n", one.kernel.sample, times_text(one.kernel),
         last.kind == env::verdict_kind::ok
             ? times_text(actors::found_kernel_of(last, one.kernel.sample))
             : env::summary(last));
  }
  std::vector<std::size_t> order = actors::ranked_again(again);
  return ranked_finalists{std::move(order), std::move(again)};
}

/// Says so where the measurement that chose a kernel and the one that is kept do not agree.
void tell_disagreement(const ranked_finalists& ranked, const kept_finalist& kept,
                       std::int64_t sample, const fs::path& folder) {
  if (ranked.again.empty()) return;
  const auto first = actors::found_kernel_of(ranked.again[kept.index], sample),
             last = actors::found_kernel_of(kept.again, sample);
  if (actors::disagree(first, last))
    tell(stdout,
         "sample {} was {} when it was chosen and {} now: more than these intervals say differed "
         "between the two, such as what else the machine did; on a quiet machine remove {}, and "
         "the same command chooses and measures anew\n",
         sample, times_text(first), times_text(last), (folder / "best.verdict.json").string());
}

/// The first in rank that is right when it is measured once more: what was the fastest of several
/// is too fast on average. The first of all where none is.
base::expected<kept_finalist> choose(closing_judge& judge,
                                     const std::vector<actors::ancestor>& finalists,
                                     const fs::path& folder) {
  QUERN_TRY(const ranked_finalists ranked, rank(judge, finalists));
  std::optional<kept_finalist> kept;
  for (const std::size_t index : ranked.order) {
    QUERN_TRY(env::verdict again, judge.judge(finalists[index].source));
    const bool right = again.kind == env::verdict_kind::ok;
    if (!kept || right) kept = kept_finalist{index, std::move(again)};
    if (right) break;
  }
  tell_disagreement(ranked, *kept, finalists[kept->index].kernel.sample, folder);
  return *kept;
}

base::ordered_json summary_of(const actors::run_config& config, const actors::search_book& search,
                              const std::string& task) {
  base::ordered_json verdicts = base::ordered_json::object();
  for (const auto& [name, count] : search.verdicts())
    verdicts[name] = count;
  return {{"quern_optimize", 1},
          {"task", task},
          {"policy", config.policy.model},
          {"seed", config.run.seed},
          {"exemplars", config.replay.exemplars},
          {"budget", search.budget()},
          {"spent", search.spent()},
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
  QUERN_TRY(const found_by_run found, read_found(config, run.paths(), task));
  base::ordered_json summary = summary_of(config, found.search, task);
  if (found.finalists.empty()) {
    tell(stdout, "no kernel of {} evaluations is right; the verdicts stand in {}\n",
         found.search.spent(), (folder / "optimize.json").string());
    return base::write_file_atomic(folder / "optimize.json", base::dump_pretty(summary));
  }
  auto kept = read_kept(config, folder, found.finalists);
  if (!kept) {
    closing_judge judge(config, tasks);
    QUERN_TRY(kept, choose(judge, found.finalists, folder));
  }
  const env::verdict& again = kept->again;
  const actors::lineage& lineage = found.chains[kept->index];
  const actors::ancestor& last = lineage.back();
  tell(stdout, "best of {} evaluations: {}, sample {}\n", found.search.spent(),
       times_text(last.kernel), last.kernel.sample);
  const actors::found_kernel measured = actors::found_kernel_of(again, last.kernel.sample);
  const bool right = again.kind == env::verdict_kind::ok;
  tell(stdout, "measured again in fresh processes: {}\n",
       right ? times_text(measured) : env::summary(again));
  base::ordered_json told = {
      {"variant", last.variant},        {"sample", last.kernel.sample},
      {"generation", last.generation},  {"finalists", variants_of(found.finalists)},
      {"found", times_of(last.kernel)}, {"again", times_of(measured)}};
  told["again"]["verdict"] = env::name_of(again.kind);
  summary["best"] = std::move(told);
  const fs::path kernel = folder / ("best" + std::string(actors::lane_of(config).file_ending)),
                 verdict = folder / "best.verdict.json", chain = folder / "best.lineage.json";
  QUERN_CHECK(base::write_file_atomic(kernel, last.source));
  QUERN_CHECK(base::write_file_atomic(verdict, base::dump(env::to_json(again)) + "\n"));
  QUERN_CHECK(base::write_file_atomic(chain, base::dump_pretty(actors::to_json(lineage))));
  // Last: it says which kernel the others are of.
  QUERN_CHECK(base::write_file_atomic(folder / "optimize.json", base::dump_pretty(summary)));
  tell(stdout, "kernel {}\nverdict {}\nlineage {}\n", kernel.string(), verdict.string(),
       chain.string());
  if (explain) tell(stdout, "\n{}", actors::text_of(lineage));
  return {};
}

}  // namespace quern::tools
