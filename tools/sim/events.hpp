// The simulation's time and network: an event queue with a fake clock, and links that lose, delay,
// double and reorder what is sent over them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"

namespace quern::sim {

using base::nanoseconds_t;

/// Which faults a schedule has, and how often a message suffers each.
struct fault_rates {
  double lost = 0;
  double doubled = 0;
  double late = 0;
};

struct fault_counts {
  std::int64_t lost = 0, doubled = 0, late = 0, reordered = 0;
  std::int64_t control_deaths = 0, generator_deaths = 0, learner_deaths = 0, host_deaths = 0,
               host_freezes = 0, sick_spells = 0, learner_hangs = 0, doomed_starts = 0,
               broken_hosts = 0;
};

/// Events happen in the order of their times; equal times in the order in which they were planned.
class event_queue {
 public:
  explicit event_queue(std::uint64_t seed) : random_(seed, "simulation") {}

  [[nodiscard]] nanoseconds_t now() const { return clock_.now_ns(); }
  [[nodiscard]] const base::manual_clock& clock() const { return clock_; }
  base::random_stream& random() { return random_; }

  void at(nanoseconds_t time, std::function<void()> what);
  void in(nanoseconds_t delay, std::function<void()> what) { at(now() + delay, std::move(what)); }
  /// A uniformly drawn duration, in milliseconds.
  nanoseconds_t between_ms(std::int64_t low, std::int64_t high);

  /// Sends over a link: `what` happens at the other end after a delay, or never, or twice.
  void send(const std::string& link, std::function<void()> what);

  /// Sends over a link that keeps order and loses nothing, as CAF's do; `may_double`: it may happen
  /// twice, which is more than CAF does.
  void send_in_order(const std::string& link, bool may_double, const std::function<void()>& what);

  /// The next event; false if there is none.
  bool step();

  fault_rates rates;
  fault_counts counts;
  /// Messages delivered (timers are not counted).
  std::int64_t delivered = 0;

 private:
  struct planned {
    nanoseconds_t time;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const planned& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  void deliver(const std::string& link, nanoseconds_t delay, const std::function<void()>& what);

  base::manual_clock clock_;
  base::random_stream random_;
  std::priority_queue<planned> queue_;
  std::uint64_t order_ = 0;
  std::map<std::string, std::uint64_t> last_sent_, last_seen_;
  std::map<std::string, nanoseconds_t> last_arrival_;  ///< on links that keep order
};

}  // namespace quern::sim
