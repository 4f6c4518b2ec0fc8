// Processes of one purpose that run side by side to their end: the makers of a corpus, the ranks of
// fine-tuning.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
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
  /// Nobody said what is wrong with the run: one was killed or thrown out of its work, others left
  /// its group for that.
  bool lost = false;
};

constexpr base::nanoseconds_t for_ever = std::numeric_limits<base::nanoseconds_t>::max();

/// How long is waited before SIGKILL.
struct group_limits {
  base::nanoseconds_t others = for_ever;   ///< for the others when one has ended
  base::nanoseconds_t pause = for_ever;    ///< for all when a pause was asked for
  base::nanoseconds_t silence = for_ever;  ///< for one that uses no time of a processor
  /// When one is lost the others are asked to pause: they would go on for long, and all are started
  /// again together.
  bool pause_others = false;
};

/// `at_once`: whoever asked does not want to wait for an orderly end any more.
enum class pause_request : std::uint8_t { none, in_order, at_once };

/// One thread, which lives as long as the processes do (parent-death signal).
class process_group {
 public:
  /// Errors: as base::subprocess::start.
  static base::expected<process_group> start(const std::vector<process_plan>& plans,
                                             const group_limits& limits);

  /// Waits for all. `asked` waits a moment for a request to pause, which is passed on once; a
  /// process that was stopped (SIGSTOP) is continued for it. Who was killed for not answering one
  /// has paused.
  group_end wait(const std::function<pause_request()>& asked);

 private:
  /// One process and its signs of life.
  struct member {
    process_plan plan;
    base::subprocess child;
    bool ended = false;
    bool silent = false;            ///< it was killed for it
    std::string used = {};          ///< time of processors, as last seen
    base::nanoseconds_t lived = 0;  ///< when that had changed
  };

  explicit process_group(const group_limits& limits) : limits_(limits) {}
  bool look();
  void note(const member& one, const base::exit_state& state);
  void ask_to_pause();
  void listen();
  void end_what_is_late();
  void kill_all();

  /// Whose end is told: of one that said what is wrong rather than of one that was killed, and of
  /// that rather than of one that left because of another.
  enum class blame : std::uint8_t { nobody, left, killed, said };

  group_limits limits_;
  std::vector<member> members_;
  base::steady_clock clock_;
  base::nanoseconds_t first_end_ = -1, pause_sent_ = -1, listened_ = -1;
  bool pausing_ = false;  ///< the run is; else others may pause because one was lost
  bool out_of_patience_ = false;
  blame blamed_ = blame::nobody;
  group_end end_;
};

}  // namespace quern::actors
