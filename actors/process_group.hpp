// Processes of one purpose that run side by side to their end: the makers of a corpus, the ranks of
// fine-tuning.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/config/process_plan.hpp"
#include "base/clock.hpp"
#include "base/status.hpp"
#include "base/subprocess.hpp"

namespace quern::actors {

/// How they ended. A process pauses with exit code 3.
struct group_end {
  bool paused = false;
  std::string problem = {};  ///< of one that failed, with its log; empty: none did
  bool lost = false;  ///< nobody said what is wrong: one was killed, others left its group for that
};

/// One thread, which lives as long as the processes do (parent-death signal).
class process_group {
 public:
  /// `patience`: how long the others may go on when one has ended, before they are killed. Errors:
  /// as base::subprocess::start.
  static base::expected<process_group> start(const std::vector<process_plan>& plans,
                                             base::nanoseconds_t patience);

  /// Waits for all. `pause_asked` waits a moment for a request to pause, which is passed on once.
  group_end wait(const std::function<bool()>& pause_asked);

 private:
  process_group(const std::vector<process_plan>& plans, base::nanoseconds_t patience)
      : plans_(plans), patience_(patience), seen_(plans.size()) {}
  bool look();
  void note(const process_plan& plan, const base::exit_state& state);
  void signal_all(int number);

  /// Whose end is told: of one that said what is wrong rather than of one that was killed, and of
  /// that rather than of one that left because of another.
  enum class blame : std::uint8_t { nobody, left, killed, said };

  std::vector<process_plan> plans_;
  base::nanoseconds_t patience_;
  std::vector<base::subprocess> children_;
  std::vector<bool> seen_;
  base::steady_clock clock_;
  base::nanoseconds_t first_end_ = -1;
  bool out_of_patience_ = false;
  blame blamed_ = blame::nobody;
  group_end end_;
};

}  // namespace quern::actors
