#include "actors/sft_run.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <limits>

#include <fmt/format.h>

#include "actors/config/gpus.hpp"
#include "actors/config/learner_setup.hpp"
#include "actors/console.hpp"
#include "actors/decide/restart_policy.hpp"
#include "actors/defaults.hpp"
#include "actors/process_group.hpp"
#include "actors/processes.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/pause_signals.hpp"
#include "base/program.hpp"
#include "storage/checkpoint.hpp"

namespace quern::actors {
namespace {

/// What asks a run to end early: signals, or a command on its console.
struct end_requests {
  base::pause_signals signals;
  std::atomic<bool> pause = false, stop = false;

  /// Waits up to a tenth of a second for one.
  bool arrived() { return signals.arrived(100) || pause || stop; }
};

run_end run_end_of(const group_end& group, const end_requests& requests) {
  const bool told = !group.problem.empty() && !group.lost;
  if (group.paused && !told) return {requests.stop ? ending::stop : ending::pause, false, ""};
  if (!group.problem.empty()) return {ending::pause, false, group.problem};
  return {ending::stop, true, ""};
}

std::filesystem::path corpus_of(const run_config& config, const storage::run_paths& paths) {
  return config.tasks.corpus_folder.empty() ? paths.root / "corpus"
                                            : std::filesystem::path(config.tasks.corpus_folder);
}

/// One process a rank: "sft" is rank 0 and speaks on the terminal, the others are sft-1 and so on.
base::expected<std::vector<process_plan>> plan_tuners(const run_config& config,
                                                      const storage::run_paths& paths,
                                                      const std::string& meeting) {
  QUERN_TRY(const auto torch, base::sibling_program("quern-torch"));
  QUERN_TRY(const auto devices, learner_devices(config));
  std::vector<process_plan> tuners;
  for (std::int64_t rank = 0; rank < config.learner.ranks; ++rank) {
    const std::string role = rank == 0 ? "sft" : fmt::format("sft-{}", rank);
    process_plan tuner{
        role,
        {.argv = {torch.string(), "sft", "--config", paths.config().string(), "--corpus",
                  corpus_of(config, paths).string(), "--run", paths.root.string()}}};
    if (rank > 0) tuner.spec.log = paths.log_of(role);
    if (config.learner.ranks > 1) {
      tuner.spec.argv.insert(tuner.spec.argv.end(),
                             {"--rank", std::to_string(rank), "--meeting", meeting});
      tuner.spec.environment.emplace_back(without_nvls);
    }
    const bool chosen = config.learner.ranks > 1 || !config.learner.devices.empty();
    if (chosen && config.learner.device != "cpu") {
      QUERN_TRY(std::string gpu, only_gpu(devices[static_cast<std::size_t>(rank)], ""));
      tuner.spec.environment.push_back(std::move(gpu));
    }
    tuners.push_back(std::move(tuner));
  }
  return tuners;
}

/// Waits; false: an end was requested meanwhile.
bool pass(base::nanoseconds_t delay, end_requests& requests) {
  const base::steady_clock clock;
  for (const auto start = clock.now_ns(); clock.now_ns() - start < delay;)
    if (requests.arrived()) return false;
  return true;
}

/// The last durable step; -1: none yet.
std::int64_t durable_step(const storage::run_paths& paths) {
  return storage::checkpoint_store(paths.checkpoints()).latest().value_or(-1);
}

/// A rank that dies costs the steps since the checkpoint: all start again, within the limits that
/// hold for every process of a run, and for as long as there are new checkpoints. An error that one
/// of them tells ends the run.
base::expected<run_end> fine_tune(const run_config& config, storage::run_directory& run,
                                  end_requests& requests) {
  const base::steady_clock clock;
  restart_policy restarts(restart_limits_of(config));
  const auto patience = static_cast<base::nanoseconds_t>(config.learner.rank_deadline_s * 1e9) +
                        std::chrono::nanoseconds(defaults::exit_grace).count();
  std::int64_t reached = durable_step(run.paths()), in_vain = 0;
  for (int start = 0;; ++start) {
    // A name of its own: whoever is left of the start before does not find this one.
    QUERN_TRY(const std::string socket, run.socket(fmt::format("r{}", start)));
    QUERN_TRY(const auto tuners, plan_tuners(config, run.paths(), "unix:" + socket));
    QUERN_TRY(process_group group, process_group::start(tuners, patience));
    const group_end end = group.wait([&] { return requests.arrived(); });
    if (end.paused || !end.lost) return run_end_of(end, requests);
    const std::int64_t now = durable_step(run.paths());
    in_vain = now > reached ? 1 : in_vain + 1;
    reached = now;
    const auto decision = restarts.died("sft", clock.now_ns());
    if (!decision.restart || in_vain > config.actors.restarts)
      return run_end{ending::pause, false,
                     fmt::format("{}; that was the end of {} starts in a row without a new "
                                 "checkpoint, of {} within {} s (actors.restarts is {})",
                                 end.problem, in_vain, decision.deaths,
                                 config.actors.restart_window_s, config.actors.restarts)};
    base::log_warn("sft", "{}; it goes on from the last checkpoint", end.problem);
    if (!pass(decision.delay_ns, requests))
      return run_end{requests.stop ? ending::stop : ending::pause, false, ""};
  }
}

}  // namespace

base::expected<sft_position> sft_position_of(const run_config& config,
                                             const storage::run_paths& paths) {
  sft_position at;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(corpus_of(config, paths), ignored)) {
    if (file.path().extension() != ".jsonl") continue;
    std::ifstream lines(file.path(), std::ios::binary);
    at.records += std::count(std::istreambuf_iterator<char>(lines), {}, '\n');
  }
  const storage::checkpoint_store checkpoints(paths.checkpoints());
  const auto latest = checkpoints.latest();
  if (latest) {
    at.step = *latest;
  } else if (latest.error().code != base::errc::not_found) {
    return tl::unexpected(latest.error());
  }
  return at;
}

base::expected<run_end> run_sft(const run_config& config, storage::run_directory& run) {
  end_requests requests;
  const storage::run_paths& paths = run.paths();
  QUERN_TRY(const std::string console_socket, run.socket("console"));
  const console_commands commands{
      [&]() -> base::json {
        const auto at = sft_position_of(config, paths);
        if (!at) return {{"error", at.error().message}};
        return {{"progress", fmt::format("{} records in the corpus, step {} of {} is durable",
                                         at->records, at->step, config.learner.steps)},
                {"verdicts", base::json::object()}};
      },
      [&](ending how) { (how == ending::pause ? requests.pause : requests.stop) = true; }};
  QUERN_TRY(const auto listening, console::serve(console_socket, commands));
  QUERN_TRY(const auto quern, base::sibling_program("quern"));
  const std::filesystem::path corpus = corpus_of(config, paths);
  QUERN_CHECK(base::make_folders(corpus));
  std::vector<process_plan> makers;
  for (std::int64_t i = 0; i < config.env.evaluators; ++i) {
    const std::string role = fmt::format("corpus-{}", i);
    makers.push_back(
        {role,
         {.argv = {quern.string(), "tasks", "corpus", "--config", paths.config().string(),
                   "--folder", corpus.string(), "--shard", std::to_string(i)},
          .log = paths.log_of(role)}});
  }
  base::log_info("sft", "making the corpus in {} with {} makers", corpus.string(), makers.size());
  constexpr base::nanoseconds_t for_ever = std::numeric_limits<base::nanoseconds_t>::max();
  QUERN_TRY(process_group making, process_group::start(makers, for_ever));
  const run_end made = run_end_of(making.wait([&] { return requests.arrived(); }), requests);
  if (!made.finished) return made;
  base::log_info("sft", "fine-tuning for {} steps", config.learner.steps);
  return fine_tune(config, run, requests);
}

}  // namespace quern::actors
