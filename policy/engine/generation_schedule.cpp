// Admission, prompt chunks, decoding, preemption.
#include "policy/engine/generation_schedule.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace quern::policy {

generation_schedule::generation_schedule(const schedule_limits& limits)
    : limits_(limits), book_(limits.pages, limits.page_size, limits.slots) {
  for (std::int32_t i = limits.slots; i-- > 0;)
    free_slots_.push_back(i);
}

void generation_schedule::add(std::span<const scheduled_sequence> group) {
  std::vector<entry> entries_of_group;
  ++next_group_;
  for (const scheduled_sequence& s : group) {
    entry e;
    e.sequence = s;
    e.group = next_group_;
    e.waits = !entries_of_group.empty();
    entries_of_group.push_back(e);
  }
  if (!entries_of_group.empty()) waiting_.push_back(std::move(entries_of_group));
}

/// In order, as long as slots and pages last. Those who run already are left a page each, so that
/// what is let in does not push them out at once.
void generation_schedule::admit() {
  while (!waiting_.empty() && waiting_.front().size() <= free_slots_.size()) {
    std::vector<entry>& group = waiting_.front();
    const auto reserve = static_cast<std::int32_t>(running_.empty() ? 0 : running_.size());
    const std::int32_t wanted =
        book_.pages_for(group.front().sequence.tokens) + static_cast<std::int32_t>(group.size());
    const bool alone = running_.empty();
    if (!alone && wanted + reserve > book_.free_pages()) return;
    for (entry& e : group) {
      e.slot = free_slots_.back();
      free_slots_.pop_back();
      e.admitted = ++admissions_;
      if (!e.waits && !book_.grow(e.slot, e.sequence.tokens)) {
        free_slots_.push_back(std::exchange(e.slot, -1));
        return;  // the first of a group: nothing has moved yet
      }
      running_by_serial_[e.sequence.serial] = running_.insert(running_.end(), e);
    }
    waiting_.pop_front();
  }
}

void generation_schedule::give_back(entry& e) {
  book_.release(e.slot);
  free_slots_.push_back(std::exchange(e.slot, -1));
  e.computed = 0;
  e.fed = false;
}

generation_schedule::entries::iterator generation_schedule::find_running(std::uint64_t serial) {
  const auto found = running_by_serial_.find(serial);
  return found == running_by_serial_.end() ? running_.end() : found->second;
}

/// No longer among those that run.
void generation_schedule::leave(entries::iterator who) {
  running_by_serial_.erase(who->sequence.serial);
  running_.erase(who);
}

generation_schedule::entries::iterator generation_schedule::heir_of(const entry& leader) {
  return std::find_if(running_.begin(), running_.end(),
                      [&](const entry& e) { return e.waits && e.group == leader.group; });
}

/// Back to the head of the queue, with those who wait for its prompt.
void generation_schedule::preempt(entries::iterator who, schedule_step& step) {
  std::vector<entry> group;
  const bool leads = !who->waits && !who->fed;
  const std::uint64_t number = who->group;
  const auto take = [&](entries::iterator which) {
    give_back(*which);
    step.preempted.push_back(which->sequence.serial);
    group.push_back(*which);
    leave(which);
  };
  take(who);
  group.front().waits = false;
  group.front().group = ++next_group_;
  for (auto e = running_.begin(); leads && e != running_.end();) {
    const auto here = e++;
    if (!here->waits || here->group != number) continue;
    take(here);
    group.back().group = group.front().group;
  }
  preemptions_ += static_cast<std::int64_t>(group.size());
  waiting_.push_front(std::move(group));
}

/// Takes pages from the youngest that has no chunk in this step until `who` has one more; false:
/// that was `who`, which is preempted itself.
bool generation_schedule::make_room(entries::iterator who, schedule_step& step) {
  while (!book_.grow(who->slot, who->sequence.tokens)) {
    auto victim = running_.end();
    for (auto e = running_.begin(); e != running_.end(); ++e) {
      const bool can_give = !e->held && !book_.pages_of(e->slot).empty();
      if (can_give && (victim == running_.end() || e->admitted > victim->admitted)) victim = e;
    }
    const bool self = victim == who;
    const std::uint64_t serial = victim->sequence.serial;
    std::erase_if(step.rows, [&](const decode_row& r) { return r.serial == serial; });
    preempt(victim, step);
    if (self) return false;
  }
  return true;
}

bool generation_schedule::plan_row(entries::iterator who, schedule_step& step) {
  if (!make_room(who, step)) return false;
  step.rows.push_back({who->sequence.serial, who->slot, who->sequence.tokens - 1});
  return true;
}

/// The members begin with the leader's pages; who finds none goes back to the queue, alone.
void generation_schedule::fan_out(entries::iterator leader, prompt_chunk& chunk,
                                  schedule_step& step) {
  for (auto e = running_.begin(); e != running_.end();) {
    const auto here = e++;
    if (!here->waits || here->group != leader->group) continue;
    std::optional<page_copy> copy;
    if (!book_.share(leader->slot, here->slot, leader->sequence.tokens, copy)) {
      preempt(here, step);
      continue;
    }
    if (copy) step.copies.push_back(*copy);
    here->waits = false;
    here->held = true;
    here->computed = here->sequence.tokens;
    here->fed = true;
    ++here->sequence.tokens;
    chunk.members.push_back({here->sequence.serial, here->slot});
  }
}

void generation_schedule::plan_chunk(entries::iterator who, std::int32_t& room,
                                     schedule_step& step) {
  prompt_chunk chunk;
  chunk.serial = who->sequence.serial;
  chunk.slot = who->slot;
  chunk.begin = who->computed;
  chunk.end = std::min<std::int64_t>(who->sequence.tokens, chunk.begin + room);
  chunk.last = chunk.end == who->sequence.tokens;
  room -= static_cast<std::int32_t>(chunk.end - chunk.begin);
  who->computed = chunk.end;
  who->held = true;
  if (chunk.last) {
    fan_out(who, chunk, step);
    who->fed = true;
    ++who->sequence.tokens;
  }
  step.chunks.push_back(std::move(chunk));
}

/// The oldest first, so that whoever has to give way has not been planned yet.
void generation_schedule::plan_rows(schedule_step& step, std::int32_t& room) {
  std::vector<std::uint64_t> order;
  for (const entry& e : running_)
    if (e.decodes() && !e.full()) order.push_back(e.sequence.serial);
  for (std::uint64_t serial : order) {
    if (room == 0) return;
    const auto who = find_running(serial);
    if (who == running_.end()) continue;  // has just given way
    if (plan_row(who, step)) --room;
  }
}

void generation_schedule::plan_chunks(schedule_step& step, std::int32_t& room) {
  std::vector<std::uint64_t> order;
  for (const entry& e : running_)
    if (!e.waits && !e.fed) order.push_back(e.sequence.serial);
  for (std::uint64_t serial : order) {
    if (room == 0) return;
    const auto who = find_running(serial);
    if (who != running_.end()) plan_chunk(who, room, step);
  }
}

/// One pass of a fixed number of rows: whoever was served goes to the back.
void generation_schedule::plan_in_turn(schedule_step& step) {
  std::vector<std::uint64_t> order;
  for (const entry& e : running_)
    if (!e.waits && (!e.fed || !e.full())) order.push_back(e.sequence.serial);
  std::int32_t room = limits_.shared_rows;
  for (std::uint64_t serial : order) {
    if (room == 0) break;
    const auto who = find_running(serial);
    if (who == running_.end()) continue;
    if (!who->fed) {
      plan_chunk(who, room, step);
    } else {
      if (!plan_row(who, step)) continue;
      --room;
    }
    running_.splice(running_.end(), running_, find_running(serial));
  }
}

schedule_step generation_schedule::next() {
  schedule_step step;
  for (entry& e : running_)
    e.held = false;
  admit();
  if (limits_.shared_rows > 0) {
    plan_in_turn(step);
  } else {
    std::int32_t rows = limits_.slots, prompts = limits_.prompt_rows;
    plan_rows(step, rows);
    plan_chunks(step, prompts);
  }
  // Only now, so that a row that gave way in between has not counted a token.
  for (const decode_row& row : step.rows) {
    const auto who = find_running(row.serial);
    who->computed = who->sequence.tokens;
    ++who->sequence.tokens;
  }
  return step;
}

void generation_schedule::restart() {
  schedule_step dropped;
  while (!running_.empty()) {          // the oldest last: it ends at the head of the queue
    auto youngest = running_.begin();  // of those who wait for a prompt only if there is no other
    for (auto e = running_.begin(); e != running_.end(); ++e)
      if (!e->waits && (youngest->waits || e->admitted > youngest->admitted)) youngest = e;
    preempt(youngest, dropped);
  }
}

bool generation_schedule::finish(std::uint64_t serial) {
  if (const auto who = find_running(serial); who != running_.end()) {
    if (const auto heir = who->waits || who->fed ? running_.end() : heir_of(*who);
        heir != running_.end()) {
      book_.hand_over(who->slot, heir->slot);
      heir->computed = who->computed;
      heir->waits = false;
    }
    give_back(*who);
    leave(who);
    return true;
  }
  for (auto group = waiting_.begin(); group != waiting_.end(); ++group) {
    const auto who = std::find_if(group->begin(), group->end(),
                                  [&](const entry& e) { return e.sequence.serial == serial; });
    if (who == group->end()) continue;
    group->erase(who);
    if (group->empty())
      waiting_.erase(group);
    else
      group->front().waits = false;
    return true;
  }
  return false;
}

}  // namespace quern::policy
