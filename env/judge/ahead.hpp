// What is done for a candidate before its turn comes: compiled once, however many ask, and started.
#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/clock.hpp"
#include "env/runner/candidate_process.hpp"
#include "env/sandbox/compile.hpp"

namespace quern::env {

/// Longest life of a candidate's process, s.
inline constexpr double candidate_wall_s = 120;

/// Lets everybody who wants the same source compiled at the same time wait for one compilation. A
/// text that does not compile is remembered, the last ones of them: whoever judges it after it was
/// compiled ahead does not wait a second time. Thread-safe.
class shared_compilation {
 public:
  base::expected<compile_result> compile(compiler& with, const compile_request& request);
  /// The same for any compiler: `make` runs for one of those who ask with the same key.
  base::expected<compile_result> once(const base::hash128& key,
                                      const std::function<base::expected<compile_result>()>& make);

 private:
  using answer = std::shared_future<base::expected<compile_result>>;
  std::mutex guard_;
  std::unordered_map<base::hash128, answer> flying_;
  std::list<std::pair<base::hash128, compile_result>> refused_;  ///< the oldest first
};

/// Processes that were started for an artefact whose candidate is about to be judged. Holds a few;
/// the oldest ends when there are more. Thread-safe.
class started_processes {
 public:
  void put(const std::filesystem::path& artefact, std::unique_ptr<candidate_process> process);
  /// Null when none was started, or when it has used up a quarter of its life by waiting: a
  /// candidate must not die of what it waited for.
  std::unique_ptr<candidate_process> take(const std::filesystem::path& artefact);

 private:
  struct waiting {
    std::filesystem::path artefact;
    std::unique_ptr<candidate_process> process;
    base::nanoseconds_t since = 0;
  };
  std::mutex guard_;
  std::list<waiting> ready_;
  base::steady_clock clock_;
};

}  // namespace quern::env
