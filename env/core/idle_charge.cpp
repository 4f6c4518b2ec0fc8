// Work that a runner does between its answer and the next question, and what it costs.
#include "env/core/idle_charge.hpp"

#include <algorithm>
#include <limits>

#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

/// Higher, and a few disturbed windows of the trusted side would forgive a candidate all it does;
/// lower, and a kernel would be charged where it is compared with itself.
constexpr double forgiven_quantile = 0.9;

}  // namespace

void idle_charge::asked(bool candidate, std::int64_t cpu_ns) {
  std::int64_t& answered = answered_[candidate ? 1 : 0];
  if (answered >= 0) {
    const auto used = static_cast<double>(std::max<std::int64_t>(cpu_ns - answered, 0));
    if (candidate)
      end_pair(used);
    else
      saw_trusted(used);
  }
  answered = -1;
}

void idle_charge::end_pair(double used_ns) {
  if (ended_ == used_.size()) return;
  used_.back() = used_ns;
  ended_ = used_.size();
}

double idle_charge::forgiven_ns() const {
  if (trusted_.size() < std::max<std::size_t>(least_trusted_, 1))
    return std::numeric_limits<double>::infinity();
  return quantile_of(trusted_, forgiven_quantile);
}

process_pairs idle_charge::charged(process_pairs pairs, std::int64_t calls) const {
  const double forgiven = forgiven_ns();
  for (std::size_t i = 0; i < pairs.size() && i < used_.size(); ++i)
    pairs[i].cand_ns += std::max(0.0, used_[i] - forgiven) / static_cast<double>(calls);
  return pairs;
}

}  // namespace quern::env
