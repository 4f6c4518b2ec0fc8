#include "actors/sft_run.hpp"

#include <algorithm>
#include <chrono>
#include <functional>

#include <fmt/format.h>

#include "actors/config/device_class.hpp"
#include "actors/config/disk_check.hpp"
#include "actors/config/gpus.hpp"
#include "actors/config/learner_setup.hpp"
#include "actors/config/preflight.hpp"
#include "actors/console.hpp"
#include "actors/decide/end_order.hpp"
#include "actors/decide/restart_policy.hpp"
#include "actors/decide/step_watch.hpp"
#include "actors/defaults.hpp"
#include "actors/process_group.hpp"
#include "actors/processes.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/pause_signals.hpp"
#include "base/program.hpp"
#include "env/grammar/corpus.hpp"
#include "storage/checkpoint.hpp"

namespace quern::actors {
namespace {

/// A corpus maker that is asked to pause finishes its task; if it does not, the task is made again.
constexpr base::nanoseconds_t maker_pause = 120'000'000'000;
/// Who uses no time of a processor for so long hangs or is frozen. Above what a file system that
/// changes over takes (phase_deadline), and a turn on a shared GPU (turn_deadline).
constexpr std::chrono::nanoseconds longest_silence = defaults::checkpoint_timeout;
static_assert(longest_silence > defaults::phase_deadline);
static_assert(longest_silence > defaults::turn_deadline);

/// What asks a run to end early: signals, a command on its console, or its time that is over.
class end_requests {
 public:
  explicit end_requests(double max_time_s) : max_time_s_(max_time_s), started_(clock_.now_ns()) {}
  end_order order;

  /// Waits up to a tenth of a second for one; those that came stay.
  pause_request arrived() {
    const bool signalled = signals_.arrived(100);
    const base::nanoseconds_t now = clock_.now_ns();
    if (signalled && signalled_ >= 0 && now - signalled_ > one_gesture) at_once_ = true;
    if (signalled && signalled_ < 0) {
      signalled_ = now;
      order.give(ending::pause);
      base::log_info("sft", "pausing after what is at work; a second Ctrl-C ends it at once");
    }
    const double seconds = static_cast<double>(now - started_) / 1e9;
    if (max_time_s_ > 0 && seconds > max_time_s_ && order.give(ending::stop))
      base::log_info("sft", "stopping: run.max_time_s is {}", max_time_s_);
    if (at_once_) return pause_request::at_once;
    return order.given() ? pause_request::in_order : pause_request::none;
  }
  /// The end that was asked for; a signal pauses, as in the other stages.
  [[nodiscard]] ending how() const {
    return signalled_ >= 0 ? ending::pause : order.given().value_or(ending::pause);
  }

 private:
  /// Programs like timeout send a signal to a process and then to its group.
  static constexpr base::nanoseconds_t one_gesture = 500'000'000;

  base::pause_signals signals_;
  base::steady_clock clock_;
  double max_time_s_;
  base::nanoseconds_t started_, signalled_ = -1;
  bool at_once_ = false;
};

run_end run_end_of(const group_end& group, const end_requests& requests) {
  const bool told = !group.problem.empty() && !group.lost;
  if (group.paused && !told) return {requests.how(), false, ""};
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
                                                      const std::string& meeting,
                                                      std::int64_t in_vain) {
  QUERN_TRY(const auto torch, base::sibling_program("quern-torch"));
  QUERN_TRY(const auto devices, learner_devices(config));
  std::vector<process_plan> tuners;
  for (std::int64_t rank = 0; rank < config.learner.ranks; ++rank) {
    const std::string role = rank == 0 ? "sft" : fmt::format("sft-{}", rank);
    process_plan tuner{role,
                       {.argv = {torch.string(), "sft", "--config", paths.config().string(),
                                 "--corpus", corpus_of(config, paths).string(), "--run",
                                 paths.root.string(), "--in-vain", std::to_string(in_vain)}}};
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
    if (requests.arrived() != pause_request::none) return false;
  return true;
}

/// Processes that do one thing together and go on where they stopped.
struct sft_phase {
  std::string role;
  std::string kept;  ///< what they go on from
  group_limits limits;
  /// `in_vain`: losses since something new was kept, the one that told of it included.
  std::function<base::expected<std::vector<process_plan>>(int start, std::int64_t in_vain)> plans;
  std::function<std::int64_t()> reached;  ///< grows with what is kept
};

/// One that dies costs what was done since the last record or checkpoint: all start again, within
/// the limits that hold for every process of a run, and for as long as something new is kept. An
/// error that one of them tells ends the run.
base::expected<run_end> run_phase(const run_config& config, const sft_phase& phase,
                                  end_requests& requests) {
  const base::steady_clock clock;
  restart_policy restarts(restart_limits_of(config));
  std::int64_t reached = phase.reached(), in_vain = 0;
  for (int start = 0;; ++start) {
    QUERN_TRY(const auto plans, phase.plans(start, in_vain));
    QUERN_TRY(process_group group, process_group::start(plans, phase.limits));
    const group_end end = group.wait([&] { return requests.arrived(); });
    if (end.paused || !end.lost) return run_end_of(end, requests);
    const std::int64_t now = phase.reached();
    in_vain = now > reached ? 1 : in_vain + 1;
    reached = now;
    const auto decision = restarts.died(phase.role, clock.now_ns());
    if (!decision.restart || in_vain > config.actors.restarts)
      return run_end{ending::pause, false,
                     fmt::format("{}; {} losses since the last new {}, of "
                                 "{} within {} s (actors.restarts is {})",
                                 end.problem, in_vain, phase.kept, decision.deaths,
                                 config.actors.restart_window_s, config.actors.restarts)};
    base::log_warn("sft", "{}; it goes on from the last {}", end.problem, phase.kept);
    if (!pass(decision.delay_ns, requests)) return run_end{requests.how(), false, ""};
  }
}

/// The last durable step; -1: none yet.
std::int64_t durable_step(const storage::run_paths& paths) {
  return storage::checkpoint_store(paths.checkpoints()).latest().value_or(-1);
}

base::expected<run_end> fine_tune(const run_config& config, storage::run_directory& run,
                                  end_requests& requests) {
  const storage::run_paths& paths = run.paths();
  // Written, and read again for its manifest, or read to go on from. Before the first start there
  // is none to ask.
  std::uint64_t planned = 0;
  if (const auto model = policy_shape(config))
    planned = static_cast<std::uint64_t>(checkpoint_bytes(config, *model));
  const std::uint64_t bytes = 2 * std::max(bytes_at(paths.checkpoints()), planned);
  sft_phase tuning{"sft", "checkpoint", {}, {}, [&] { return durable_step(paths); }};
  tuning.limits.others = static_cast<base::nanoseconds_t>(config.learner.rank_deadline_s * 1e9) +
                         std::chrono::nanoseconds(defaults::exit_grace).count();
  tuning.limits.pause = with_bytes(defaults::step_deadline + defaults::checkpoint_timeout, bytes);
  tuning.limits.silence = with_bytes(longest_silence, bytes);
  tuning.plans = [&](int start, std::int64_t in_vain) -> base::expected<std::vector<process_plan>> {
    // A name of its own: whoever is left of the start before does not find this one.
    QUERN_TRY(const std::string socket, run.socket(fmt::format("r{}", start)));
    return plan_tuners(config, paths, "unix:" + socket, in_vain);
  };
  base::log_info("sft", "fine-tuning for {} steps", config.learner.steps);
  return run_phase(config, tuning, requests);
}

/// What a run's makers would begin a corpus with, as far as check_corpus looks.
env::corpus_plan chosen_plan(const run_config& config) {
  env::corpus_plan plan;
  plan.seed = static_cast<std::uint64_t>(config.tasks.seed);
  plan.tasks = config.tasks.corpus_tasks;
  plan.samples_per_task = static_cast<int>(config.tasks.corpus_variants);
  plan.wrong_share = config.tasks.corpus_wrong_share;
  plan.exemplar_task_share = config.tasks.corpus_exemplars_share;
  plan.exemplars_shown = config.replay.exemplars_shown;
  plan.task.lane = &lane_of(config);
  return plan;
}

/// `env.evaluators` makers at most; a corpus that was begun keeps its shards, and they share them.
std::vector<process_plan> plan_makers(const run_config& config, const storage::run_paths& paths,
                                      const std::string& quern, std::int64_t shards) {
  std::vector<process_plan> makers;
  const std::int64_t count = std::min(config.env.evaluators, shards);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string role = fmt::format("corpus-{}", i);
    process_plan maker{
        role,
        {.argv = {quern, "tasks", "corpus", "--config", paths.config().string(), "--folder",
                  corpus_of(config, paths).string(), "--shards", std::to_string(shards)},
         .log = paths.log_of(role)}};
    for (std::int64_t shard = i; shard < shards; shard += count)
      maker.spec.argv.insert(maker.spec.argv.end(), {"--shard", std::to_string(shard)});
    makers.push_back(std::move(maker));
  }
  return makers;
}

/// Finished at once where nobody is to make one.
base::expected<run_end> make_corpus_of_run(const run_config& config,
                                           const storage::run_paths& paths,
                                           end_requests& requests) {
  const std::filesystem::path corpus = corpus_of(config, paths);
  QUERN_TRY(const auto quern, base::sibling_program("quern"));
  QUERN_CHECK(base::make_folders(corpus));
  QUERN_TRY(const env::corpus_survey found, env::survey_corpus(corpus));
  if (config.env.evaluators == 0) return run_end{ending::stop, true, ""};
  QUERN_CHECK(env::check_corpus(found, corpus, chosen_plan(config)));
  const std::int64_t shards = found.shards > 0 ? found.shards : config.env.evaluators;
  const auto makers = plan_makers(config, paths, quern.string(), shards);
  base::log_info("sft", "making the corpus in {} with {} makers{}", corpus.string(), makers.size(),
                 shards == config.env.evaluators
                     ? ""
                     : fmt::format(": it was begun with {} shards and keeps them", shards));
  sft_phase making{"corpus", "record", {}, {}, {}};
  making.limits.pause = maker_pause;
  making.limits.silence = longest_silence.count();
  making.limits.pause_others = true;
  making.plans = [&](int, std::int64_t) { return makers; };
  making.reached = [&] {
    const auto now = env::survey_corpus(corpus);
    return now ? now->records : 0;
  };
  QUERN_TRY(const run_end made, run_phase(config, making, requests));
  // Another run may have made files here meanwhile: what is learnt from is looked at as it is now.
  if (made.finished) QUERN_CHECK(env::survey_corpus(corpus));
  return made;
}

}  // namespace

base::expected<std::int64_t> durable_sft_step(const storage::run_paths& paths) {
  const auto latest = storage::checkpoint_store(paths.checkpoints()).latest();
  if (latest) return *latest;
  if (latest.error().code == base::errc::not_found) return 0;
  return tl::unexpected(latest.error());
}

base::expected<sft_position> sft_position_of(const run_config& config,
                                             const storage::run_paths& paths) {
  sft_position at;
  QUERN_TRY(const env::corpus_survey corpus, env::survey_corpus(corpus_of(config, paths)));
  at.records = corpus.records;
  QUERN_TRY(at.step, durable_sft_step(paths));
  return at;
}

base::expected<run_end> run_sft(const run_config& config, storage::run_directory& run) {
  end_requests requests(config.run.max_time_s);
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
      [&](ending how) {
        requests.order.give(how);
        return *requests.order.given();
      }};
  QUERN_TRY(const auto listening, console::serve(console_socket, commands));
  QUERN_TRY(const run_end made, make_corpus_of_run(config, paths, requests));
  if (!made.finished) return made;
  return fine_tune(config, run, requests);
}

}  // namespace quern::actors
