// Time and network of the simulation.
#include "tools/sim/events.hpp"

#include <algorithm>

namespace quern::sim {

using base::operator""_ms;

void event_queue::at(nanoseconds_t time, std::function<void()> what) {
  queue_.push({std::max(time, now()), ++order_, std::move(what)});
}

nanoseconds_t event_queue::between_ms(std::int64_t low, std::int64_t high) {
  return random_.between(low * 1'000'000, high * 1'000'000);
}

void event_queue::deliver(const std::string& link, nanoseconds_t delay,
                          const std::function<void()>& what) {
  const auto number = ++last_sent_[link];
  in(delay, [this, link, number, what] {
    auto& seen = last_seen_[link];
    if (number < seen) ++counts.reordered;
    seen = std::max(seen, number);
    ++delivered;
    what();
  });
}

void event_queue::send(const std::string& link, std::function<void()> what) {
  if (random_.chance(rates.lost)) {
    ++counts.lost;
    return;
  }
  const int copies = random_.chance(rates.doubled) ? 2 : 1;
  if (copies == 2) ++counts.doubled;
  for (int copy = 0; copy < copies; ++copy) {
    auto delay = between_ms(1, 5);
    if (random_.chance(rates.late)) {
      ++counts.late;
      delay += between_ms(100, 1500);
    }
    deliver(link, delay, what);
  }
}

void event_queue::send_in_order(const std::string& link, bool may_double,
                                const std::function<void()>& what) {
  // More often than on links that lose: there are few of these messages, and fewer that matter.
  const bool twice = may_double && random_.chance(4 * rates.doubled);
  auto& last = last_arrival_[link];
  last = std::max(last, now() + between_ms(1, 5));
  at(last, [this, what] {
    ++delivered;
    what();
  });
  if (!twice) return;
  ++counts.doubled;
  // The second one comes behind others that were sent meanwhile.
  in(between_ms(5, 60), [this, link, what] { send_in_order(link, false, what); });
}

bool event_queue::step() {
  if (queue_.empty()) return false;
  auto next = queue_.top();
  queue_.pop();
  clock_.advance(next.time - now());
  next.what();
  return true;
}

}  // namespace quern::sim
