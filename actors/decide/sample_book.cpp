// The life of samples between the ledger and the learner.
#include "actors/decide/sample_book.hpp"

#include <algorithm>

#include "actors/decide/mutation.hpp"

namespace quern::actors {

using base::errc;
using base::fail;

namespace {

loss loss_by(std::string_view reason) {
  return drop_reason::is_infrastructure(reason) ? loss::of_infrastructure : loss::of_sample;
}

}  // namespace

base::expected<sample_book> sample_book::make(incarnation_id incarnation, weights_version version,
                                              sample_book_options options,
                                              std::int64_t next_sequence) {
  QUERN_TRY(auto plan,
            schedule::make(options.staleness.groups_per_step, options.staleness.max_age));
  if (options.deterministic && options.staleness.policy != staleness_policy::drop) {
    return fail(errc::invalid_argument,
                "deterministic mode fixes every age; its staleness policy is drop, not {}",
                to_string(options.staleness.policy));
  }
  return sample_book(incarnation, version, options, next_sequence, plan);
}

sample_book::sample_book(incarnation_id incarnation, weights_version version,
                         sample_book_options options, std::int64_t next_sequence, schedule plan)
    : incarnation_(incarnation),
      version_(version),
      options_(options),
      next_sequence_(next_sequence),
      schedule_(plan),
      window_(options.staleness),
      groups_(options.fixed_policy ? 1 : least_group),
      batcher_(options.staleness.groups_per_step),
      order_(plan.first_group(version)) {}

base::status sample_book::know_weights(weights_version version, const base::hash128& weights) {
  const auto [at, fresh] = lineage_.emplace(version, weights);
  if (!fresh && at->second != weights) {
    return fail(errc::conflict, "version {} has weights {}, not {}", version, to_hex(at->second),
                to_hex(weights));
  }
  return {};
}

bool sample_book::of_this_lineage(const std::vector<segment>& segments) const {
  return std::all_of(segments.begin(), segments.end(), [&](const segment& s) {
    const auto known = lineage_.find(s.version);
    return known != lineage_.end() && known->second == s.weights;
  });
}

bool sample_book::may_sample(const issue_permit& permit) const {
  // The schedule bounds what is under way by itself; after a rollback groups fill gaps in it.
  if (options_.deterministic) return permit.version <= version_;
  if (mutated(mutation::slot_freed_at_admission)) {
    const auto counted = window_.charged() - static_cast<std::int64_t>(batcher_.waiting());
    return version_ + counted / schedule_.groups_per_step() - permit.version <=
           options_.staleness.max_age;
  }
  return window_.can_issue(permit.version, version_);
}

std::optional<issue_permit> sample_book::may_issue(weights_version installed) const {
  if (!parked_.empty()) return std::nullopt;
  const issue_permit permit{
      next_sequence_, options_.deterministic ? schedule_.version_for(next_sequence_) : installed};
  if (!may_sample(permit)) return std::nullopt;
  return permit;
}

base::status sample_book::issued(group_id group, const issue_permit& by,
                                 std::vector<sample_id> samples) {
  if (by.sequence != next_sequence_) {
    return fail(errc::conflict, "group {} has number {}, but the next one is {}", group,
                by.sequence, next_sequence_);
  }
  QUERN_CHECK(groups_.open(group, by.sequence, samples));
  QUERN_CHECK(window_.charge(group, by.version));
  for (const auto sample : samples)
    live_[sample] = {group, sample_state::issued, 0, {}};
  open_[group] = {by, std::move(samples)};
  ++next_sequence_;
  return {};
}

base::status sample_book::restore(const storage::group_row& row) {
  std::vector<sample_id> samples;
  bool untouched = true;
  for (const auto& sample : row.samples) {
    samples.push_back(sample.id);
    untouched = untouched && sample.state == sample_state::issued;
  }
  const issue_permit permit{row.seq,
                            options_.deterministic ? schedule_.version_for(row.seq) : version_};
  QUERN_CHECK(groups_.open(row.id, row.seq, samples));
  open_[row.id] = {permit, std::move(samples)};
  for (const auto& sample : row.samples) {
    if (!storage::is_live(sample.state)) continue;
    if (sample.state == sample_state::consumed) {
      return fail(errc::internal, "sample {} is consumed, but no step survives that used it",
                  sample.id);
    }
    // How long a sample is stands with its tokens; the masks need only where its segments begin.
    const auto tokens = sample.segments.empty() ? 0 : sample.segments.back().first_token + 1;
    live_[sample.id] = {row.id, sample.state, tokens, sample.segments};
    for (const auto& s : sample.segments)
      QUERN_CHECK(know_weights(s.version, s.weights));
  }
  if (untouched) {
    parked_[row.seq] = row.id;
    return {};
  }
  QUERN_CHECK(window_.charge(row.id, permit.version));
  QUERN_CHECK(stamp(row.id));
  for (const auto& sample : row.samples) {
    if (sample.state == sample_state::evaluated || sample.state == sample_state::admitted) {
      QUERN_TRY(auto resolution, groups_.evaluated(sample.id));
      if (resolution) resolved_[row.seq] = std::move(*resolution);
    } else if (!storage::is_live(sample.state)) {
      QUERN_TRY(auto resolution, groups_.dropped(sample.id, loss_by(sample.drop_reason)));
      if (resolution) resolved_[row.seq] = std::move(*resolution);
    }
  }
  return {};
}

base::expected<std::vector<transition>> sample_book::restored() {
  std::map<std::int64_t, group_id> alive;
  for (const auto& [group, open] : open_)
    alive[open.permit.sequence] = group;
  for (auto number = order_.next(); number < next_sequence_; ++number) {
    if (!alive.contains(number)) QUERN_CHECK(order_.finish(number, 0));
  }
  std::vector<transition> changes;
  for (const auto& resolution : std::exchange(resolved_, {})) {
    QUERN_CHECK(resolve(resolution.second, changes));
  }
  return changes;
}

base::expected<std::vector<std::pair<group_id, issue_permit>>> sample_book::unpark(
    weights_version installed) {
  std::vector<std::pair<group_id, issue_permit>> ready;
  while (!parked_.empty()) {
    const auto group = parked_.begin()->second;
    auto& permit = open_.at(group).permit;
    if (!options_.deterministic) permit.version = installed;
    if (!may_sample(permit)) break;
    QUERN_CHECK(window_.charge(group, permit.version));
    ready.emplace_back(group, permit);
    parked_.erase(parked_.begin());
  }
  return ready;
}

base::status sample_book::stamp(group_id group) {
  const auto& open = open_.at(group);
  // Samples without tokens may still be made by the version of the permit.
  std::optional<weights_version> oldest;
  const auto at_least = [&](weights_version v) { oldest = oldest ? std::min(*oldest, v) : v; };
  for (const auto id : open.samples) {
    const auto sample = live_.find(id);
    if (sample == live_.end()) continue;
    const auto& segments = sample->second.segments;
    if (segments.empty()) {
      at_least(open.permit.version);
    } else {
      at_least(mutated(mutation::version_stamped_at_end) ? segments.back().version
                                                         : segments.front().version);
    }
  }
  return oldest ? window_.stamp(group, *oldest, version_) : base::status{};
}

base::expected<sample_news> sample_book::generated(incarnation_id incarnation, sample_id sample,
                                                   std::int64_t tokens,
                                                   std::vector<segment> segments) {
  sample_news news;
  const auto found = live_.find(sample);
  const bool old = incarnation != incarnation_ && !mutated(mutation::old_incarnation_accepted);
  if (old || found == live_.end() || found->second.state != sample_state::issued) return news;
  if (segments.empty() || tokens <= 0) {
    return fail(errc::invalid_argument,
                "sample {} came with {} tokens in {} segments; both must be positive", sample,
                tokens, segments.size());
  }
  if (segments.back().version > version_) {
    return fail(
        errc::internal,
        "sample {} was sampled by version {}, but the learner has only reached {}: a negative "
        "age",
        sample, segments.back().version, version_);
  }
  if (!of_this_lineage(segments) && !mutated(mutation::old_incarnation_accepted)) return news;
  auto& state = found->second;
  state.state = sample_state::generated;
  state.tokens = tokens;
  state.segments = std::move(segments);
  QUERN_CHECK(stamp(state.group));
  news.counted = true;
  news.changes.push_back({sample, sample_state::generated, {}});
  return news;
}

base::expected<sample_news> sample_book::evaluated(incarnation_id incarnation, sample_id sample) {
  sample_news news;
  const auto found = live_.find(sample);
  if (incarnation != incarnation_ || found == live_.end() ||
      found->second.state != sample_state::generated) {
    return news;
  }
  found->second.state = sample_state::evaluated;
  news.counted = true;
  news.changes.push_back({sample, sample_state::evaluated, {}});
  QUERN_TRY(const auto resolution, groups_.evaluated(sample));
  if (resolution) QUERN_CHECK(resolve(*resolution, news.changes));
  return news;
}

base::expected<sample_news> sample_book::dropped(incarnation_id incarnation, sample_id sample,
                                                 std::string_view reason) {
  sample_news news;
  const auto found = live_.find(sample);
  if (incarnation != incarnation_ || found == live_.end() ||
      (found->second.state != sample_state::issued &&
       found->second.state != sample_state::generated)) {
    return news;
  }
  const auto group = found->second.group;
  if (!mutated(mutation::dropped_sample_trained)) live_.erase(found);
  news.counted = true;
  news.changes.push_back({sample, sample_state::dropped, reason});
  if (window_.holds(group)) QUERN_CHECK(stamp(group));
  QUERN_TRY(const auto resolution, groups_.dropped(sample, loss_by(reason)));
  if (resolution) QUERN_CHECK(resolve(*resolution, news.changes));
  return news;
}

base::status sample_book::resolve(const group_resolution& resolution,
                                  std::vector<transition>& changes) {
  if (!options_.deterministic) return settle(resolution, changes);
  resolved_[resolution.sequence] = resolution;
  QUERN_CHECK(order_.finish(resolution.sequence, resolution.group));
  for (const auto group : order_.take()) {
    const auto open = open_.find(group);
    if (open == open_.end()) continue;  // all of it was dropped in an earlier incarnation
    const auto turn = resolved_.extract(open->second.permit.sequence);
    QUERN_CHECK(settle(turn.mapped(), changes));
  }
  return {};
}

base::status sample_book::settle(const group_resolution& resolution,
                                 std::vector<transition>& changes) {
  if (options_.fixed_policy) return close_judged(resolution, changes);
  const bool kept = mutated(mutation::doomed_group_kept);
  for (const auto sample : kept ? std::vector<sample_id>() : resolution.leftover) {
    changes.push_back(
        {sample, sample_state::dropped,
         resolution.mostly_lost ? drop_reason::group_mostly_lost : drop_reason::group_too_small});
    live_.erase(sample);
  }
  if (!resolution.trains) return finish_group(resolution.group);
  ready_group ready{resolution.group, resolution.sequence, {}};
  for (const auto sample : resolution.members) {
    auto& state = live_.at(sample);
    if (state.state != sample_state::admitted) {
      changes.push_back({sample, sample_state::admitted, {}});
    }
    state.state = sample_state::admitted;
    ready.samples.push_back({sample, state.tokens, state.segments});
  }
  return batcher_.add(std::move(ready));
}

base::status sample_book::close_judged(const group_resolution& resolution,
                                       std::vector<transition>& changes) {
  for (const auto& part : {resolution.members, resolution.leftover})
    for (const auto sample : part) {
      changes.push_back({sample, sample_state::admitted, {}});
      changes.push_back({sample, sample_state::dropped, drop_reason::no_learner});
      live_.erase(sample);
    }
  return finish_group(resolution.group);
}

base::status sample_book::finish_group(group_id group) {
  open_.erase(group);
  if (mutated(mutation::doomed_slot_kept)) return {};
  return window_.release(group);
}

base::expected<batch_news> sample_book::next_batch() {
  batch_news news;
  if (under_way_) return news;
  batch_plan plan;
  if (options_.deterministic) {
    const auto horizon = schedule_.first_group(version_ + 1);
    if (order_.next() < horizon) return news;
    QUERN_TRY(plan, batcher_.plan_until(horizon, version_, window_));
  } else {
    QUERN_TRY(plan, batcher_.plan(version_, window_));
  }
  const auto drop = [&](sample_id sample) {
    if (live_.erase(sample) > 0) {
      news.changes.push_back({sample, sample_state::dropped, drop_reason::stale});
    }
  };
  for (const auto group : plan.too_old) {
    for (const auto sample : open_.at(group).samples)
      drop(sample);
    QUERN_CHECK(finish_group(group));
  }
  for (const auto sample : plan.fully_masked)
    drop(sample);
  news.waits_for = std::move(plan.waits_for);
  if (plan.next) plan.next->number = ++batches_;
  under_way_ = plan.next;
  news.next = std::move(plan.next);
  return news;
}

base::expected<sample_news> sample_book::stepped(incarnation_id incarnation, weights_version from,
                                                 const base::hash128& weights) {
  sample_news news;
  if (incarnation != incarnation_ || !under_way_ ||
      (under_way_->from != from && !mutated(mutation::step_applied_twice)))
    return news;
  QUERN_CHECK(know_weights(from + 1, weights));
  for (const auto& group : under_way_->groups) {
    for (const auto& member : group.members) {
      news.changes.push_back({member.sample, sample_state::consumed, {}});
      live_.erase(member.sample);
    }
    QUERN_CHECK(finish_group(group.group));
  }
  news.counted = true;
  under_way_.reset();
  ++version_;
  return news;
}

base::expected<sample_news> sample_book::left_out(incarnation_id incarnation, std::int64_t number) {
  sample_news news;
  if (incarnation != incarnation_ || !under_way_ || under_way_->number != number) return news;
  for (const auto& group : under_way_->groups) {
    for (const auto& member : group.members) {
      news.changes.push_back({member.sample, sample_state::dropped, drop_reason::non_finite});
      live_.erase(member.sample);
    }
    QUERN_CHECK(finish_group(group.group));
  }
  news.counted = true;
  under_way_.reset();
  return news;
}

}  // namespace quern::actors
