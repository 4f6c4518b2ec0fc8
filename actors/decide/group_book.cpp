// Completion of groups.
#include "actors/decide/group_book.hpp"

#include <algorithm>
#include <set>

#include "actors/decide/mutation.hpp"

namespace quern::actors {

using base::errc;
using base::fail;

base::status group_book::open(group_id group, std::int64_t sequence,
                              std::vector<sample_id> samples) {
  if (groups_.contains(group)) return fail(errc::conflict, "group {} is already open", group);
  const std::set<sample_id> distinct(samples.begin(), samples.end());
  if (distinct.size() < least_ || distinct.size() != samples.size()) {
    return fail(errc::invalid_argument,
                "group {} has {} samples, {} of them distinct; it needs at least {}", group,
                samples.size(), distinct.size(), least_);
  }
  for (const auto sample : samples) {
    if (group_of_.contains(sample)) {
      return fail(errc::conflict, "sample {} is in open group {} already", sample,
                  group_of_.at(sample));
    }
  }
  for (const auto sample : samples)
    group_of_[sample] = group;
  const auto size = samples.size();
  groups_.emplace(group, open_group{sequence, std::move(samples), std::vector<end>(size), size});
  return {};
}

base::expected<std::optional<group_resolution>> group_book::finish(sample_id sample, end how) {
  const auto member = group_of_.find(sample);
  if (member == group_of_.end()) {
    return fail(errc::not_found, "sample {} is in no open group", sample);
  }
  const auto found = groups_.find(member->second);
  auto& group = found->second;
  const auto place = std::find(group.samples.begin(), group.samples.end(), sample);
  auto& state = group.ends[static_cast<std::size_t>(place - group.samples.begin())];
  if (state != end::none) return fail(errc::conflict, "sample {} has ended before", sample);
  state = how;
  if (--group.missing > 0) return std::nullopt;

  group_resolution resolution{found->first, group.sequence, false, {}, {}, false};
  const auto lost = std::count(group.ends.begin(), group.ends.end(), end::lost);
  for (std::size_t i = 0; i < group.samples.size(); ++i) {
    if (group.ends[i] == end::evaluated || mutated(mutation::dropped_sample_trained)) {
      resolution.members.push_back(group.samples[i]);
    }
    group_of_.erase(group.samples[i]);
  }
  const auto least = mutated(mutation::lonely_group_trained) ? 1 : least_group;
  resolution.mostly_lost = 2 * static_cast<std::size_t>(lost) > group.samples.size();
  const bool sick = resolution.mostly_lost && !mutated(mutation::sick_group_trained);
  resolution.trains = resolution.members.size() >= least && !sick;
  if (!resolution.trains) resolution.leftover.swap(resolution.members);
  groups_.erase(found);
  return resolution;
}

base::expected<std::optional<group_resolution>> group_book::evaluated(sample_id sample) {
  return finish(sample, end::evaluated);
}

base::expected<std::optional<group_resolution>> group_book::dropped(sample_id sample, loss why) {
  return finish(sample, why == loss::of_infrastructure ? end::lost : end::dropped);
}

std::optional<group_id> group_book::group_of(sample_id sample) const {
  const auto found = group_of_.find(sample);
  if (found == group_of_.end()) return std::nullopt;
  return found->second;
}

}  // namespace quern::actors
