// Processes of a role that there may be several of, such as evaluators: one that keeps dying is set
// aside and the run goes on with the others. Only when none has been there for long does it end.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "actors/decide/restart_policy.hpp"

namespace quern::actors {

struct plural_limits {
  restart_limits restarts;  ///< a process beyond them is set aside
  /// One that was set aside is tried again after `aside_ns`, then after twice as long, at most
  /// `longest_aside_ns`, until it lives for a whole restart window.
  nanoseconds_t aside_ns = 30'000'000'000;
  nanoseconds_t longest_aside_ns = 120'000'000'000;
  /// Without any process of the role for so long, although there was one, the run ends.
  nanoseconds_t absence_ns = 600'000'000'000;
  /// That there is none is said after so long.
  nanoseconds_t unsaid_ns = 60'000'000'000;
};

/// Decides for all processes of one role. "Present" are those that were let in, also such as the
/// run did not start (evaluators of other hosts). One whose devices are all in quarantine is not
/// present, but known: the run does not wait for it longer than for one of its own that died.
/// Before the first one was ever present there is nothing to wait for: what cannot begin ends the
/// run as soon as all are set aside. `now` is any monotone clock. Not thread-safe.
class plural_policy {
 public:
  explicit plural_policy(plural_limits limits) : limits_(limits), restarts_(limits.restarts) {}

  /// The run starts so many of them.
  void expect(std::size_t processes) { expected_ = processes; }

  struct decision {
    nanoseconds_t delay_ns = 0;  ///< from now to the next start
    bool aside = false;          ///< set aside until then
    int deaths = 0;              ///< within the window, this one included
    bool end = false;            ///< all are aside and none was ever present: the run ends
  };
  decision died(const std::string& process, nanoseconds_t now);
  /// One that the run started was let in: it is not aside any more. True if it had been.
  bool joined(const std::string& process);
  /// How many are present now; `quarantined`: others are there and their devices take no work.
  void present(std::size_t count, bool quarantined, nanoseconds_t now);

  /// Whether there is, or will be, something for them to do. As long as there is nothing their
  /// absence does not end the run; it is counted from when there is something again.
  void needed(bool now_needed, nanoseconds_t now);
  /// The run drains: it needs them no more, whatever `needed` says.
  void draining() { draining_ = true; }
  [[nodiscard]] bool is_needed() const { return needed_ && !draining_; }

  /// When `absent_for_long` may become true; none: not while things stay as they are.
  [[nodiscard]] std::optional<nanoseconds_t> gives_up_at() const;
  [[nodiscard]] bool absent_for_long(nanoseconds_t now) const;

 private:
  struct record {
    bool aside = false;
    nanoseconds_t pause_ns = 0;  ///< the one that runs, or ran last; 0: it was never set aside
    nanoseconds_t tried_at = 0;  ///< the end of that pause
  };

  plural_limits limits_;
  restart_policy restarts_;
  std::size_t expected_ = 0;
  std::map<std::string, record> processes_;
  bool ever_present_ = false;
  std::optional<nanoseconds_t> absent_since_;
  bool died_since_ = false;  ///< one of ours, since the last was present
  bool needed_ = true;
  nanoseconds_t needed_since_ = std::numeric_limits<nanoseconds_t>::min();
  bool draining_ = false;
  bool quarantined_ = false;
};

}  // namespace quern::actors
