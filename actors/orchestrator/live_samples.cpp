// Samples in memory, and what batches of them are.
#include "actors/orchestrator/live_samples.hpp"

#include <algorithm>
#include <utility>

#include "actors/decide/token_segments.hpp"

namespace quern::actors {
namespace {

template <class Visit>
void each_member(const batch& chosen, Visit visit) {
  for (const batch_group& group : chosen.groups)
    for (const batch_member& member : group.members)
      visit(group, member);
}

}  // namespace

void live_samples::issue(group_id id, live_group group) {
  for (const sample_id sample : group.samples)
    samples_[sample].group = id;
  groups_.emplace(id, std::move(group));
}

void live_samples::restore(group_id id, live_group group) {
  groups_.emplace(id, std::move(group));
}

void live_samples::forget(sample_id id) {
  const auto leaving = samples_.extract(id);
  if (leaving.empty()) return;
  const auto home = groups_.find(leaving.mapped().group);
  if (home == groups_.end()) return;
  const auto& members = home->second.samples;
  if (std::none_of(members.begin(), members.end(),
                   [&](sample_id each) { return samples_.contains(each); }))
    groups_.erase(home);
}

void live_samples::clear() {
  groups_.clear();
  samples_.clear();
}

live_sample* live_samples::find(sample_id id) {
  const auto known = samples_.find(id);
  return known == samples_.end() ? nullptr : &known->second;
}

const live_group* live_samples::find_group(group_id id) const {
  const auto known = groups_.find(id);
  return known == groups_.end() ? nullptr : &known->second;
}

std::size_t live_samples::judging() const {
  return static_cast<std::size_t>(std::count_if(
      samples_.begin(), samples_.end(), [](const auto& entry) { return entry.second.judging; }));
}

std::map<std::int64_t, std::int64_t> live_samples::ages(const batch& chosen) const {
  std::map<std::int64_t, std::int64_t> ages;
  each_member(chosen, [&](const batch_group&, const batch_member& member) {
    const auto& versions = samples_.at(member.sample).made.versions;
    if (!versions.empty()) ++ages[chosen.from - versions.front().version];
  });
  return ages;
}

step_results live_samples::results(const batch& chosen) const {
  step_results results;
  results.step = chosen.from + 1;
  each_member(chosen, [&](const batch_group&, const batch_member& member) {
    const live_sample& sample = samples_.at(member.sample);
    results.add(std::string(env::name_of(sample.kind)), sample.reward.value_or(0));
  });
  return results;
}

batch_shape live_samples::shape(const batch& chosen) const {
  batch_shape shape;
  each_member(chosen, [&](const batch_group& group, const batch_member& member) {
    const live_sample& sample = samples_.at(member.sample);
    shape.add(group.group, policy_tokens(sample.made.segments), sample.made.truncated,
              sample.reward.value_or(0));
  });
  return shape;
}

std::vector<training_sample> live_samples::training(const batch& chosen) const {
  std::vector<training_sample> all;
  each_member(chosen, [&](const batch_group& group, const batch_member& member) {
    const live_sample& known = samples_.at(member.sample);
    training_sample sample;
    sample.sample = member.sample;
    sample.group = group.group;
    sample.tokens = known.made.tokens;
    sample.segments = mask_head(known.made.segments, member.masked_tokens);
    sample.log_probs = known.made.log_probs;
    sample.versions = known.made.versions;
    sample.reward = known.reward.value_or(0);
    all.push_back(std::move(sample));
  });
  return all;
}

}  // namespace quern::actors
