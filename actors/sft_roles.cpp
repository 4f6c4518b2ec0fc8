#include "actors/sft_roles.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "actors/config/device_class.hpp"
#include "actors/config/disk_check.hpp"
#include "actors/config/gpus.hpp"
#include "actors/config/learner_setup.hpp"
#include "actors/config/preflight.hpp"
#include "actors/decide/step_watch.hpp"
#include "actors/defaults.hpp"
#include "actors/processes.hpp"
#include "base/log.hpp"
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

base::expected<std::vector<process_plan>> plan_tuners(const run_config& config,
                                                      const storage::run_paths& paths,
                                                      const std::string& rendezvous,
                                                      std::int64_t in_vain) {
  QUERN_TRY(const auto torch, base::sibling_program("quern-torch"));
  QUERN_TRY(const auto devices, learner_devices(config));
  std::vector<process_plan> tuners;
  for (std::int64_t rank = 0; rank < config.learner.ranks; ++rank) {
    const std::string name = rank == 0 ? "sft" : fmt::format("sft-{}", rank);
    process_plan tuner{name,
                       {.argv = {torch.string(), "sft", "--config", paths.config().string(),
                                 "--corpus", corpus_of(config, paths).string(), "--run",
                                 paths.root.string(), "--in-vain", std::to_string(in_vain)}}};
    tuner.says_hello = introduction::to_nobody;
    if (rank > 0) tuner.spec.log = paths.log_of(name);
    if (config.learner.ranks > 1) {
      tuner.spec.argv.insert(tuner.spec.argv.end(),
                             {"--rank", std::to_string(rank), "--rendezvous", rendezvous});
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

/// The last durable step; -1: none yet.
std::int64_t durable_step(const storage::run_paths& paths) {
  return storage::checkpoint_store(paths.checkpoints()).latest().value_or(-1);
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
  plan.comparing_share = config.tasks.corpus_comparing_share;
  plan.wrong_shown_share = config.tasks.corpus_wrong_shown_share;
  plan.task.lane = &lane_of(config);
  return plan;
}

std::vector<process_plan> plan_makers(const run_config& config, const storage::run_paths& paths,
                                      const std::string& quern, std::int64_t shards) {
  std::vector<process_plan> makers;
  const std::int64_t count = std::min(config.env.evaluators, shards);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("corpus-{}", i);
    process_plan maker{
        name,
        {.argv = {quern, "tasks", "corpus", "--config", paths.config().string(), "--folder",
                  corpus_of(config, paths).string(), "--shards", std::to_string(shards)},
         .log = paths.log_of(name)}};
    maker.says_hello = introduction::to_nobody;
    for (std::int64_t shard = i; shard < shards; shard += count)
      maker.spec.argv.insert(maker.spec.argv.end(), {"--shard", std::to_string(shard)});
    makers.push_back(std::move(maker));
  }
  return makers;
}

}  // namespace

std::filesystem::path corpus_of(const run_config& config, const storage::run_paths& paths) {
  return config.tasks.corpus_folder.empty() ? paths.root / "corpus"
                                            : std::filesystem::path(config.tasks.corpus_folder);
}

base::expected<role> corpus_role(const run_config& config, const storage::run_paths& paths) {
  const std::filesystem::path corpus = corpus_of(config, paths);
  QUERN_TRY(const auto quern, base::sibling_program("quern"));
  QUERN_CHECK(base::make_folders(corpus));
  QUERN_TRY(const env::corpus_survey found, env::survey_corpus(corpus));
  if (config.env.evaluators > 0) QUERN_CHECK(env::check_corpus(found, corpus, chosen_plan(config)));
  const std::int64_t shards = found.shards > 0 ? found.shards : config.env.evaluators;
  role made{"corpus", role_restarts::together, {}, {}, {}};
  made.plan = [=, &config, makers = plan_makers(config, paths, quern.string(), shards)](
                  const role_start& start) -> base::expected<std::vector<process_plan>> {
    if (start.number == 0 && !makers.empty())
      base::log_info("sft", "making the corpus in {} with {} makers{}", corpus.string(),
                     makers.size(),
                     shards == config.env.evaluators
                         ? ""
                         : fmt::format(": it was begun with {} shards and keeps them", shards));
    return makers;
  };
  made.limits.pause = maker_pause;
  made.limits.silence = longest_silence.count();
  made.limits.pause_others = true;
  made.limits.restarts = restart_limits_of(config);
  made.kept = {"record", [=] {
                 const auto now = env::survey_corpus(corpus);
                 return now ? now->records : 0;
               }};
  return made;
}

role tuning_role(const run_config& config, storage::run_directory& run) {
  const storage::run_paths& paths = run.paths();
  // Written, and read again for its manifest, or read to go on from. Before the first start there
  // is none to ask.
  std::uint64_t planned = 0;
  if (const auto model = policy_shape(config))
    planned = static_cast<std::uint64_t>(checkpoint_bytes(config, *model));
  const std::uint64_t bytes = 2 * std::max(bytes_at(paths.checkpoints()), planned);
  role made{"sft", role_restarts::together, {}, {}, {}};
  made.plan = [&](const role_start& start) -> base::expected<std::vector<process_plan>> {
    if (start.number == 0) {
      // Other runs may have made files here meanwhile: what is learnt from is looked at as it is
      // now.
      QUERN_CHECK(env::survey_corpus(corpus_of(config, run.paths())));
      base::log_info("sft", "fine-tuning for {} steps", config.learner.steps);
    }
    // A name of its own: whoever is left of the start before does not find this one.
    QUERN_TRY(const std::string socket, run.socket(fmt::format("r{}", start.number)));
    return plan_tuners(config, run.paths(), "unix:" + socket, start.in_vain);
  };
  made.limits.others = static_cast<base::nanoseconds_t>(config.learner.rank_deadline_s * 1e9) +
                       std::chrono::nanoseconds(defaults::exit_grace).count();
  made.limits.pause = with_bytes(defaults::step_deadline + defaults::checkpoint_timeout, bytes);
  made.limits.silence = with_bytes(longest_silence, bytes);
  made.limits.restarts = restart_limits_of(config);
  made.kept = {"checkpoint", [&run] { return durable_step(run.paths()); }};
  return made;
}

}  // namespace quern::actors
