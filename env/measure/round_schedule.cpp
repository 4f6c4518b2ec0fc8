// What comes next in a measurement that does not stop by its interval.
#include "env/measure/round_schedule.hpp"

#include <algorithm>

namespace quern::env {
namespace {

/// How much longer than its budget a measurement by number of runs may take.
constexpr double patience = 10, patience_s = 60;

}  // namespace

double round_schedule::longest_s() const {
  return patience * budget_s_ + patience_s;
}

bool round_schedule::more(double seconds, std::size_t counted) const {
  if (every_call_counts())
    return counted < protocol_->runs + protocol_->discarded && seconds < longest_s();
  // However short the time, there is something in every bucket.
  return counted < std::max<std::size_t>(protocol_->buckets, 1) || seconds < budget_s_;
}

process_pairs round_schedule::rounds(std::span<const double> ref_ns,
                                     std::span<const double> cand_ns) const {
  process_pairs pairs;
  const std::size_t n = std::min(ref_ns.size(), cand_ns.size());
  for (std::size_t i = protocol_->discarded; i < n; ++i)
    pairs.push_back({ref_ns[i], cand_ns[i]});
  return pairs;
}

}  // namespace quern::env
