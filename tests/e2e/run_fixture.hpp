// Whole runs through the commands that a person types, for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "base/clock.hpp"
#include "storage/sample_state.hpp"

namespace quern::test {

/// Path of a program of this build.
std::string program(const char* name);

/// tests/e2e/policy: knows the first training tasks of configs/quickstart.yaml.
std::string small_policy();

/// `quern train` of a small run in `run` with small_policy(), with the settings KEY=VALUE of
/// QUERN_TEST_SETTINGS (by spaces), with which the same tests run on GPUs (tools/gpu_check.sh), and
/// behind them `settings`.
std::vector<std::string> train_command(const std::filesystem::path& run, std::int64_t steps,
                                       const std::vector<std::string>& settings = {});

/// The settings in QUERN_TEST_SETTINGS.
std::vector<std::string> settings_of_machine();

/// What `quern train` is given in place of configs/quickstart.yaml: a configuration and its
/// options, in QUERN_TEST_RUN. Empty: nothing.
std::vector<std::string> run_of_machine();

struct finished {
  int code = -1;  ///< minus the signal where one ended it
  std::string output;
};
/// Fails the test when the command does not end within ten minutes.
finished run_to_end(std::vector<std::string> argv, const std::filesystem::path& log);

/// Lines of a file that end, without their ends; none where there is no file.
std::vector<std::string> whole_lines_of(const std::filesystem::path& file);

/// What the ledger of a run holds; may be asked while the run goes on. All zero before there is
/// one.
storage::state_counts counts_of(const std::filesystem::path& run);
/// Dropped samples of a run by their reasons; none before there is a ledger.
std::map<std::string, std::int64_t> drop_reasons_of(const std::filesystem::path& run);
/// The newest version that a checkpoint of the run holds; -1 before there is one.
std::int64_t version_of(const std::filesystem::path& run);
/// The law holds, nothing is in flight, something was trained, every event is in order.
void check_law(const std::filesystem::path& run);

/// A small fine-tuning run that ends with learner.steps alone.
extern const char* const sft_config;
/// Its last durable step, as `quern status` says; -1 before there is one. `log` is written over.
std::int64_t sft_checkpoint_of(const std::filesystem::path& run, const std::filesystem::path& log);

/// Processes whose command line holds all of `words`.
std::vector<pid_t> find_processes(const std::vector<std::string>& words);
/// Those that `parent` has started.
std::vector<pid_t> find_children(pid_t parent, const std::vector<std::string>& words);

template <class Condition>
bool wait_until(base::nanoseconds_t patience, Condition condition) {
  const base::steady_clock clock;
  const base::nanoseconds_t deadline = clock.now_ns() + patience;
  while (clock.now_ns() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return condition();
}

}  // namespace quern::test
