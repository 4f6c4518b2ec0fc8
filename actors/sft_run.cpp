#include "actors/sft_run.hpp"

#include <algorithm>
#include <atomic>
#include <fstream>

#include <fmt/format.h>

#include "actors/console.hpp"
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

/// Exit code of a process that can be gone on with.
constexpr int paused_code = 3;

/// Runs processes side by side to their end. Paused: they are asked to end and may be started
/// again.
base::expected<run_end> run_all(const std::vector<process_plan>& plans, end_requests& requests) {
  std::vector<base::subprocess> children;
  for (const process_plan& plan : plans) {
    QUERN_TRY(auto child, base::subprocess::start(plan.spec));
    children.push_back(std::move(child));
  }
  bool pausing = false;
  run_end end{ending::stop, true, ""};
  for (std::size_t i = 0; i < children.size(); ++i) {
    while (!children[i].wait(0)) {
      if (requests.arrived() && !std::exchange(pausing, true)) {
        for (base::subprocess& child : children)
          child.send_signal(SIGTERM);
      }
    }
    const base::exit_state state = *children[i].poll();
    // A maker whose part of the time is over has paused by itself.
    if (pausing || (state.code == paused_code && state.signal == 0)) {
      end = {requests.stop ? ending::stop : ending::pause, false, ""};
    } else if (state.code != 0 || state.signal != 0) {
      // Fine-tuning itself has no log: it says on the terminal what is wrong.
      const std::string log = plans[i].spec.log.string();
      end = {ending::pause, false,
             fmt::format("{} ended: {}; {}", plans[i].role, base::describe(state),
                         log.empty() ? "what it said stands above" : "its log is " + log)};
    }
  }
  return end;
}

std::filesystem::path corpus_of(const run_config& config, const storage::run_paths& paths) {
  return config.tasks.corpus_folder.empty() ? paths.root / "corpus"
                                            : std::filesystem::path(config.tasks.corpus_folder);
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
  QUERN_TRY(const auto torch, base::sibling_program("quern-torch"));
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
  QUERN_TRY(const run_end made, run_all(makers, requests));
  if (!made.finished) return made;
  base::log_info("sft", "fine-tuning for {} steps", config.learner.steps);
  const process_plan tuner{"sft",
                           {.argv = {torch.string(), "sft", "--config", paths.config().string(),
                                     "--corpus", corpus.string(), "--run", paths.root.string()}}};
  return run_all({tuner}, requests);
}

}  // namespace quern::actors
