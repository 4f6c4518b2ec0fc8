// What a sample book tells of the samples that live.
#include <algorithm>

#include "actors/decide/sample_book.hpp"

namespace quern::actors {

bool sample_book::wants_verdicts(std::int64_t steps) const {
  const std::int64_t batches = steps - version_ - (under_way_ ? 1 : 0);
  if (batches <= 0) return false;
  if (options_.deterministic) return order_.next() < schedule_.first_group(steps);
  const auto complete = static_cast<std::int64_t>(batcher_.waiting());
  return complete < batches * schedule_.groups_per_step() || unjudged() > 0;
}

std::int64_t sample_book::unjudged() const {
  return std::count_if(live_.begin(), live_.end(), [](const auto& entry) {
    return entry.second.state == sample_state::issued ||
           entry.second.state == sample_state::generated;
  });
}

std::vector<sample_id> sample_book::in_state(sample_state state) const {
  std::vector<sample_id> samples;
  for (const auto& [id, sample] : live_) {
    if (sample.state != state) continue;
    const bool is_parked = parked_.contains(open_.at(sample.group).permit.sequence);
    if (!is_parked) samples.push_back(id);
  }
  std::sort(samples.begin(), samples.end());
  return samples;
}

const issue_permit* sample_book::permit_of(sample_id sample) const {
  const auto found = live_.find(sample);
  return found == live_.end() ? nullptr : &open_.at(found->second.group).permit;
}

weights_version sample_book::oldest_needed() const {
  auto oldest = schedule_.version_for(next_sequence_);
  for (const auto& [id, sample] : live_) {
    if (sample.state == sample_state::issued) {
      oldest = std::min(oldest, open_.at(sample.group).permit.version);
    }
  }
  return oldest;
}

}  // namespace quern::actors
