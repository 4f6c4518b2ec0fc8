#include "actors/sft_run.hpp"

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/pause_signals.hpp"
#include "base/program.hpp"

namespace quern::actors {
namespace {

/// Runs processes side by side to their end. Paused: they are asked to end and may be started
/// again.
base::expected<run_end> run_all(const std::vector<process_plan>& plans,
                                base::pause_signals& signals) {
  std::vector<base::subprocess> children;
  for (const process_plan& plan : plans) {
    QUERN_TRY(auto child, base::subprocess::start(plan.spec));
    children.push_back(std::move(child));
  }
  bool pausing = false;
  run_end end{ending::stop, true, ""};
  for (std::size_t i = 0; i < children.size(); ++i) {
    while (!children[i].wait(0)) {
      if (signals.arrived(100) && !std::exchange(pausing, true)) {
        for (base::subprocess& child : children)
          child.send_signal(SIGTERM);
      }
    }
    const base::exit_state state = *children[i].poll();
    if (pausing) {
      end = {ending::pause, false, ""};
    } else if (state.code != 0 || state.signal != 0) {
      end = {ending::pause, false,
             fmt::format("{} ended: {}; its log is {}", plans[i].role, base::describe(state),
                         plans[i].spec.log.string())};
    }
  }
  return end;
}

}  // namespace

base::expected<run_end> run_sft(const run_config& config, storage::run_directory& run) {
  base::pause_signals signals;
  const storage::run_paths& paths = run.paths();
  QUERN_TRY(const auto quern, base::sibling_program("quern"));
  QUERN_TRY(const auto torch, base::sibling_program("quern-torch"));
  const std::filesystem::path corpus = config.tasks.corpus_folder.empty()
                                           ? paths.root / "corpus"
                                           : std::filesystem::path(config.tasks.corpus_folder);
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
  QUERN_TRY(const run_end made, run_all(makers, signals));
  if (!made.finished) return made;
  base::log_info("sft", "fine-tuning for {} steps", config.learner.steps);
  const process_plan tuner{"sft",
                           {.argv = {torch.string(), "sft", "--config", paths.config().string(),
                                     "--corpus", corpus.string(), "--run", paths.root.string()}}};
  return run_all({tuner}, signals);
}

}  // namespace quern::actors
