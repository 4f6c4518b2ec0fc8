#include "policy/collectives/rank_watch.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace quern::policy {
namespace {

constexpr std::array<std::string_view, 7> fault_texts{"absent",  "gone",  "left",   "silent",
                                                      "stalled", "stuck", "overdue"};

double seconds_of(base::nanoseconds_t duration) {
  return static_cast<double>(duration) / 1e9;
}

}  // namespace

std::string_view to_string(rank_fault fault) {
  return fault_texts[static_cast<std::size_t>(fault)];
}

std::string rank_verdict::text() const {
  const std::string seen =
      last.phase.empty() ? std::string("never heard of in any phase")
                         : fmt::format("last seen in {}, version {}", last.phase, last.version);
  switch (fault) {
    case rank_fault::absent:
      return fmt::format("rank {} has not come within {:.1f} s", rank, seconds_of(age));
    case rank_fault::gone:
      return fmt::format("rank {} is gone: its connection broke ({})", rank, seen);
    case rank_fault::left:
      return fmt::format("rank {} has left while others wait for it ({})", rank, seen);
    case rank_fault::silent:
      return fmt::format("rank {} gives no sign of life for {:.1f} s ({})", rank, seconds_of(age),
                         seen);
    case rank_fault::stalled:
      return fmt::format("rank {} lives but has not moved for {:.1f} s ({})", rank, seconds_of(age),
                         seen);
    case rank_fault::stuck:
      return fmt::format("all ranks are in it and it does not end for {:.1f} s (rank {}: {})",
                         seconds_of(age), rank, seen);
    case rank_fault::overdue:
      return fmt::format("rank {} lives but is busy for {:.1f} s with what may take {:.1f} s ({})",
                         rank, seconds_of(age), seconds_of(last.busy_limit), seen);
  }
  return {};
}

rank_watch::rank_watch(std::int32_t ranks, const watch_limits& limits, base::nanoseconds_t now)
    : ranks_(static_cast<std::size_t>(ranks)), limits_(limits), start_(now) {}

void rank_watch::joined(std::int32_t rank, base::nanoseconds_t now) {
  entry& one = ranks_[static_cast<std::size_t>(rank)];
  one = {};
  one.state = presence::here;
  one.heard = one.moved = now;
}

void rank_watch::beat(std::int32_t rank, const rank_beat& where, base::nanoseconds_t now) {
  entry& one = ranks_[static_cast<std::size_t>(rank)];
  const bool moved = where.sequence != one.last.sequence || where.progress != one.last.progress ||
                     where.phase != one.last.phase || where.busy_limit != one.last.busy_limit;
  if (moved) one.moved = now;
  if (where.waiting && (!one.last.waiting || where.sequence != one.last.sequence))
    one.waiting_since = now;
  one.heard = now;
  one.last = where;
}

void rank_watch::left(std::int32_t rank) {
  ranks_[static_cast<std::size_t>(rank)].state = presence::left;
}

void rank_watch::gone(std::int32_t rank) {
  entry& one = ranks_[static_cast<std::size_t>(rank)];
  if (one.state == presence::here) one.state = presence::gone;
}

bool rank_watch::complete() const {
  return std::none_of(ranks_.begin(), ranks_.end(),
                      [](const entry& one) { return one.state == presence::awaited; });
}

rank_verdict rank_watch::blame(std::size_t rank, rank_fault fault, base::nanoseconds_t age) const {
  return {static_cast<std::int32_t>(rank), fault, age, ranks_[rank].last};
}

std::optional<rank_verdict> rank_watch::by_presence(base::nanoseconds_t now) const {
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].state == presence::gone) return blame(i, rank_fault::gone, 0);
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const entry& one = ranks_[i];
    if (one.state == presence::here && now - one.heard >= limits_.silence)
      return blame(i, rank_fault::silent, now - one.heard);
    if (one.state == presence::awaited && now - start_ >= limits_.arrival)
      return blame(i, rank_fault::absent, now - start_);
  }
  return std::nullopt;
}

std::optional<rank_verdict> rank_watch::by_limits() const {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const rank_beat& last = ranks_[i].last;
    if (ranks_[i].state == presence::here && last.busy_limit > 0 &&
        last.busy_for >= last.busy_limit)
      return blame(i, rank_fault::overdue, last.busy_for);
  }
  return std::nullopt;
}

std::optional<rank_verdict> rank_watch::by_progress(base::nanoseconds_t now) const {
  // Who waits longest in the newest collective that anybody waits for.
  const entry* waiter = nullptr;
  base::nanoseconds_t patience = limits_.stall;
  for (const entry& one : ranks_) {
    if (one.state != presence::here || !one.last.waiting) continue;
    if (one.last.connecting) patience = std::max(limits_.stall, limits_.connect);
    if (waiter == nullptr || one.last.sequence > waiter->last.sequence ||
        (one.last.sequence == waiter->last.sequence && one.waiting_since < waiter->waiting_since))
      waiter = &one;
  }
  if (waiter == nullptr) return std::nullopt;
  const base::nanoseconds_t waited = now - waiter->waiting_since;
  std::optional<std::size_t> behind;
  bool all_in = true;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const entry& one = ranks_[i];
    if (one.state == presence::left && one.last.sequence < waiter->last.sequence)
      return blame(i, rank_fault::left, 0);
    if (one.state != presence::here) continue;
    const bool entered = one.last.sequence >= waiter->last.sequence;
    if (entered && one.last.waiting) {
      // A wait that ended between two beats shows as progress alone.
      all_in &= now - std::max(one.waiting_since, one.moved) >= patience;
      continue;
    }
    all_in = false;
    // Who has entered it may hang all the same, in what connects or before it waits.
    const base::nanoseconds_t still = entered ? limits_.connect : limits_.stall;
    if (one.last.busy_limit > 0 || now - one.moved < still) continue;
    if (!behind || one.last.sequence < ranks_[*behind].last.sequence) behind = i;
  }
  if (waited < limits_.stall) return std::nullopt;
  if (behind) return blame(*behind, rank_fault::stalled, now - ranks_[*behind].moved);
  if (all_in && complete()) return blame(0, rank_fault::stuck, waited);
  return std::nullopt;
}

/// Nobody says that it waits. The rank that has begun most collectives, has not seen the end of one
/// and does not move waits in its driver; whoever has begun fewer and does not move either is
/// blamed. Both have not moved for 2 * stall: until they count as waiting, and from then on.
std::optional<rank_verdict> rank_watch::by_stillness(base::nanoseconds_t now) const {
  const auto still = [&](const entry& one) {
    return one.state == presence::here && !one.last.waiting && one.last.busy_limit == 0 &&
           now - one.moved >= 2 * limits_.stall;
  };
  const entry* ahead = nullptr;
  for (const entry& one : ranks_) {
    if (one.state == presence::here && one.last.waiting) return std::nullopt;
    if (still(one) && one.last.unfinished &&
        (ahead == nullptr || one.last.begun > ahead->last.begun))
      ahead = &one;
  }
  if (ahead == nullptr) return std::nullopt;
  std::optional<std::size_t> behind;
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (still(ranks_[i]) && ranks_[i].last.begun < ahead->last.begun &&
        (!behind || ranks_[i].last.begun < ranks_[*behind].last.begun))
      behind = i;
  if (!behind) return std::nullopt;
  return blame(*behind, rank_fault::stalled, now - ranks_[*behind].moved);
}

const std::optional<rank_verdict>& rank_watch::judge(base::nanoseconds_t now) {
  if (!verdict_) verdict_ = by_presence(now);
  if (!verdict_) verdict_ = by_limits();
  if (!verdict_) verdict_ = by_progress(now);
  if (!verdict_) verdict_ = by_stillness(now);
  return verdict_;
}

}  // namespace quern::policy
