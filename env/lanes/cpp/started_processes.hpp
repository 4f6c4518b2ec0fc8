// Processes that are started for a candidate before its turn comes.
#pragma once

#include <filesystem>
#include <list>
#include <memory>
#include <mutex>

#include "base/clock.hpp"
#include "env/lanes/cpp/candidate_process.hpp"

namespace quern::env {

/// Longest life of a candidate's process, s.
inline constexpr double candidate_wall_s = 120;

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
