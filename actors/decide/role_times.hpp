// How long each role of a run was at work, waited for its turn on a device and had nothing to do:
// in a sliding window and in all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string_view>

#include "base/clock.hpp"

namespace quern::actors {

using base::nanoseconds_t;

enum class run_role : std::uint8_t { generator, learner, evaluator, control };
inline constexpr std::size_t run_role_count = 4;
inline constexpr std::array<run_role, run_role_count> all_run_roles = {
    run_role::generator, run_role::learner, run_role::evaluator, run_role::control};
/// "generator", "learner", "evaluator", "control": keys of metrics.jsonl and `quern status --json`.
std::string_view name_of(run_role role);

/// What a role without work waits for.
enum class role_wait : std::uint8_t {
  unknown,
  window,     ///< generator: no group may be issued before the learner's next step
  exemplars,  ///< generator: the next prompt shows kernels that are still being timed
  goal,       ///< generator: all that the run still needs is issued
  groups,     ///< learner: too few groups are finished
  jobs,       ///< evaluator: no candidate is there
  messages    ///< control: nobody has said anything
};
inline constexpr std::size_t role_wait_count = 7;
inline constexpr std::array<role_wait, role_wait_count> all_role_waits = {
    role_wait::unknown, role_wait::window, role_wait::exemplars, role_wait::goal,
    role_wait::groups,  role_wait::jobs,   role_wait::messages};
/// The name of the enumerator.
std::string_view name_of(role_wait wait);

/// Sums over the members of a role, in ns of one member's time: two generators that work for a
/// second have been busy for two.
struct role_time {
  nanoseconds_t busy = 0;
  nanoseconds_t device_wait = 0;  ///< had work and waited for its turn on a device that it shares
  std::array<nanoseconds_t, role_wait_count> idle_for = {};
  /// Of the run's time, not of members': while there was none.
  nanoseconds_t absent = 0;
  /// Tokens sampled, steps taken, evaluations answered; of control nothing.
  std::int64_t done = 0;

  [[nodiscard]] nanoseconds_t idle() const;
  [[nodiscard]] nanoseconds_t present() const { return busy + device_wait + idle(); }
  // Shares of the time of the members that were there, 0 if none was. The three add up to 1.
  [[nodiscard]] double busy_share() const { return share(busy); }
  [[nodiscard]] double device_share() const { return share(device_wait); }
  [[nodiscard]] double idle_share() const { return share(idle()); }
  /// What it waited for longest when it had nothing to do; unknown if it always had.
  [[nodiscard]] role_wait waits_for() const;

  role_time& operator+=(const role_time& other);
  role_time& operator-=(const role_time& other);
  bool operator==(const role_time&) const = default;

 private:
  [[nodiscard]] double share(nanoseconds_t part) const;
};

/// A stretch of a run.
struct loop_time {
  nanoseconds_t wall = 0;  ///< of the run, pauses left out
  std::array<role_time, run_role_count> roles = {};
  /// Whether the run has no such role, and nobody waits for it: a learner in stage search.
  std::array<bool, run_role_count> none_of = {};

  [[nodiscard]] bool has(run_role role) const { return !none_of[static_cast<std::size_t>(role)]; }
  [[nodiscard]] const role_time& of(run_role role) const {
    return roles[static_cast<std::size_t>(role)];
  }
  [[nodiscard]] role_time& of(run_role role) { return roles[static_cast<std::size_t>(role)]; }
  /// What the role did in a second; 0 if there was no time.
  [[nodiscard]] double per_second(run_role role) const;

  loop_time& operator+=(const loop_time& other);
  loop_time& operator-=(const loop_time& other);
  bool operator==(const loop_time&) const = default;
};

/// A process, or a device of an evaluator host. Never 0, never used twice.
using role_member = std::uint64_t;

/// Keeps the accounts. Every call says the time, of one monotone clock; one that is earlier than
/// another call's counts as that one's. A member that is not (any more) there is left alone. Not
/// thread-safe.
class role_times {
 public:
  struct options {
    nanoseconds_t window = 300'000'000'000;  ///< several steps of a large policy
    std::size_t parts = 60;                  ///< the window moves on by a part of it at a time
  };

  role_times(options bounds, nanoseconds_t now);

  /// It is there from now on, with nothing to do. A role that restarts has another member.
  role_member joined(run_role role, nanoseconds_t now);
  void left(role_member member, nanoseconds_t now);
  /// From now on it has work, or has none.
  void working(role_member member, bool on, nanoseconds_t now);
  /// `total`: how long it has waited for its turn on a device since it joined, as it says itself.
  /// What is new since it last said so was counted as work and is taken out of it.
  void waited_for_device(role_member member, nanoseconds_t total, nanoseconds_t now);
  /// What those of the role that have nothing to do wait for, from now on.
  void waits_for(run_role role, role_wait what, nanoseconds_t now);
  /// Nothing while the run is paused.
  void did(run_role role, std::int64_t amount, nanoseconds_t now);
  /// While it is on no time passes for anybody.
  void pause(bool on, nanoseconds_t now);

  /// The last `options.window`, to within a part of it.
  [[nodiscard]] loop_time window(nanoseconds_t now);
  /// Since the beginning. What was busy may turn out to have waited for a device; all else only
  /// grows.
  [[nodiscard]] loop_time total(nanoseconds_t now);

 private:
  struct member_state {
    run_role role = run_role::control;
    bool busy = false;
    nanoseconds_t device_total = 0;
    nanoseconds_t busy_since_told = 0;  ///< up to `since`
    nanoseconds_t since = 0;            ///< in run_time_
  };
  struct role_state {
    std::int64_t members = 0;
    std::int64_t busy = 0;
    role_wait wait = role_wait::unknown;
  };

  void advance(nanoseconds_t now);
  void accrue(loop_time& to, nanoseconds_t span) const;
  loop_time& part();
  void settle(member_state& member) const;

  options options_;
  nanoseconds_t last_;          ///< newest time that was told
  nanoseconds_t run_time_ = 0;  ///< since the beginning, pauses left out
  bool paused_ = false;
  role_member next_ = 1;
  std::map<role_member, member_state> members_;
  std::array<role_state, run_role_count> roles_ = {};
  std::int64_t first_part_ = 0;  ///< number of parts_.front(); they follow one another
  std::deque<loop_time> parts_;
  loop_time total_;
};

}  // namespace quern::actors
