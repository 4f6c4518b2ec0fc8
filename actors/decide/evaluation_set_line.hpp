// What people read of a closing comparison while it measures.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>

#include "base/clock.hpp"

namespace quern::actors {

/// Kernels that prompts show are timed first. Then both halves ask the same `all` prompts: first
/// the first weights, then the last.
struct evaluation_set_progress {
  std::size_t timed = 0;            ///< kernels that prompts show
  std::size_t to_time = 0;          ///< of so many
  bool last = false;                ///< the last weights are being asked, the first have answered
  std::size_t answered = 0;         ///< prompts of this half
  std::size_t all = 0;              ///< prompts of each half
  base::nanoseconds_t elapsed = 0;  ///< since the first half began, the kernels being timed
};

/// "evaluation set: 16 of 64 prompts answered by the first weights, about 7 min left". The time is
/// that of both halves (time_left_text), and is left out before the first answer and after the
/// last. Before: "evaluation set: 24 of 128 shown kernels timed".
std::string evaluation_set_line(const evaluation_set_progress& at);

/// How far a closing comparison is: told by its actor, read by the console. Thread-safe.
class evaluation_set_position {
 public:
  /// `clock` outlives it; `all`: prompts of each half.
  evaluation_set_position(const base::clock& clock, std::size_t all);
  /// Kernels that prompts show. The time of answers begins when all are timed.
  void on_timed(std::size_t timed, std::size_t all);
  /// A half begins.
  void on_half(bool last);
  /// So many prompts of this half are answered.
  void on_answered(std::size_t answered);
  [[nodiscard]] std::string line() const;

 private:
  const base::clock& clock_;
  mutable std::mutex guard_;
  evaluation_set_progress at_;  ///< but for its time
  base::nanoseconds_t begin_;
};

}  // namespace quern::actors
