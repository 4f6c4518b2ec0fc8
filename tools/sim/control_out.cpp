// Control in the simulation: what it asks of generators, learner and hosts, and when it repeats
// itself.
#include <algorithm>

#include <fmt/core.h>

#include "tools/sim/control.hpp"

namespace quern::sim {

using storage::sample_state;

weights_version control::installed() const {
  auto oldest = book_->version();
  for (const auto& hash : attested_) {
    if (hash == base::hash128{}) continue;
    oldest = std::min(oldest, truth_.all_weights.at(hash)->version);
  }
  return oldest;
}

std::int64_t control::groups_under_way() {
  // Straight from the rows: the window's own account is what is being checked.
  const auto row = count_groups_.next();
  const auto count = must(row) && *row ? count_groups_.integer(0) : 0;
  count_groups_.reset();
  return count;
}

void control::issue_groups() {
  const bool none = std::all_of(attested_.begin(), attested_.end(),
                                [](const auto& hash) { return hash == base::hash128{}; });
  if (none) return;
  const auto ready = book_->unpark(installed());
  if (!must(ready)) return;
  while (!draining_) {
    const auto permit = book_->may_issue(installed());
    if (!permit) return;
    const auto under_way = groups_under_way();
    if (under_way >= book_->window().slots()) {
      truth_.violated(fmt::format("a group is issued while {} are under way; there are {} slots",
                                  under_way, book_->window().slots()));
    }
    const auto ids = ledger_->issue({permit->sequence, "task", {}, {}, {}, plan_.group_size});
    if (!must(ids)) return;
    std::vector<sample_id> samples;
    for (int k = 0; k < plan_.group_size; ++k)
      samples.push_back(ids->first_sample + k);
    must(book_->issued(ids->group, *permit, samples));
    want_commit();
  }
}

void control::ask_generators() {
  if (!ledger_->durable()) return;  // nobody works on what might never have happened
  for (const auto sample : book_->in_state(sample_state::issued)) {
    const auto asked = asked_.find(sample);
    if (asked != asked_.end() && events_.now() - asked->second < repeat_ns) continue;
    for (int turn = 0; turn < plan_.generators; ++turn) {
      const auto g =
          static_cast<int>((sample + turn + (asked == asked_.end() ? 0 : 1)) % plan_.generators);
      if (attested_[static_cast<std::size_t>(g)] == base::hash128{}) continue;
      asked_[sample] = events_.now();
      out_.generate(g, {epoch_, sample, book_->permit_of(sample)->version});
      break;
    }
  }
}

void control::submit_evaluations() {
  for (const auto sample : book_->in_state(sample_state::generated)) {
    if (!submitted_.insert(sample).second) continue;
    // A completion that cannot be read is judged here, without a host.
    if (tokens_.at(sample).low % 16 == 0) {
      storage::verdict_row row;
      row.sample = sample;
      row.epoch = epoch_;
      row.attempt = 1;
      row.task = "task";
      row.json = "{}";
      must_accept(ledger_->evaluated(row), sample);
      const auto news = book_->evaluated(epoch_, sample);
      if (must(news)) apply(news->changes);
      continue;
    }
    auto queued = desk_->submit({sample, std::string(lane), std::string(device_class), {}});
    if (!queued && queued.error().code == base::errc::exhausted) {
      submitted_.erase(sample);
      return;
    }
    must(queued);
  }
}

void control::check_losses(actors::group_id group) {
  // Straight from the rows, as with the window.
  const auto row = ledger_->group(group);
  if (!must(row)) return;
  const auto lost = std::count_if(row->samples.begin(), row->samples.end(), [](const auto& sample) {
    return sample.drop_reason == "infra_error";
  });
  if (2 * static_cast<std::size_t>(lost) > row->samples.size())
    truth_.violated(
        fmt::format("group {} trains, though {} of its {} samples were lost to "
                    "infrastructure",
                    group, lost, row->samples.size()));
}

void control::form_batch() {
  const auto news = book_->next_batch();
  if (!must(news)) return;
  apply(news->changes);
  if (!news->next) return;
  step_request request{epoch_, news->next->from, news->next->number, {}};
  for (const auto& group : news->next->groups) {
    check_losses(group.group);
    auto& members = request.groups.emplace_back();
    for (const auto& member : group.members) {
      members.push_back({member.sample, tokens_[member.sample], member.masked_tokens});
    }
  }
  stepping_ = request;
  step_sent_ = events_.now();
  after_commit_.push_back([this, request] { out_.train(request); });
  want_commit();
}

void control::send_jobs() {
  while (const auto order = desk_->next(events_.now())) {
    if (!truth_.leases.insert(order->held.id).second) {
      truth_.violated(
          fmt::format("lease {:x} is given twice in the life of the run", order->held.id));
    }
    env::job_message job;
    job.session = order->device.session;
    job.lease = order->held.id;
    job.lane = lane;
    job.sample = static_cast<std::uint64_t>(order->held.sample);
    job.attempt = order->held.attempt;
    job.deadline_ms = lease_ns / 1'000'000;
    job.source = to_hex(tokens_[order->held.sample]);
    const auto host = host_of_.find(order->device.session);
    if (host != host_of_.end()) out_.to_host(host->second, job);
  }
}

void control::pump() {
  if (!alive_ || !truth_.violation.empty() || !desk_) return;
  issue_groups();
  ask_generators();
  submit_evaluations();
  form_batch();
  send_jobs();
  const bool due = book_->version() >= recorded_ + plan_.checkpoint_every ||
                   (draining_ && book_->version() > recorded_);
  if (due && !saving_ && !stepping_ && ledger_->durable()) {
    saving_ = true;
    out_.save(epoch_);
  }
}

void control::tick() {
  if (!alive_) return;
  const auto now = events_.now();
  for (const auto session : sessions_->expire(now)) {
    for (const auto& result : desk_->host_lost(session, now))
      note_lease(result);
    host_of_.erase(session);
  }
  for (const auto& expired : desk_->expire(now)) {
    note_lease(expired.result);
    const auto host = host_of_.find(expired.held.holder);
    if (host != host_of_.end()) {
      sessions_->cancel(expired.held.holder, {expired.held.id, 0});
    }
  }
  for (const auto session : sessions_->alive()) {
    out_.to_host(host_of_.at(session), env::heartbeat_message{session});
    for (const auto& [lease, device] : sessions_->find(session)->cancelled) {
      out_.to_host(host_of_.at(session), env::cancel_message{session, lease, device});
    }
  }
  for (int g = 0; g < plan_.generators; ++g) {
    if (attested_[static_cast<std::size_t>(g)] != announced_->hash)
      out_.install(g, epoch_, announced_);
  }
  if (offers_.missing() && !stepping_) out_.offer(epoch_);
  if (stepping_ && now - step_sent_ >= repeat_ns && ledger_->durable()) {
    step_sent_ = now;
    out_.train(*stepping_);
  }
  if (saving_) out_.save(epoch_);
  if (++ticks_ % 5 == 0) {
    const auto counts = ledger_->counts();
    if (must(counts) && !counts->law_holds()) truth_.violated("the law does not hold");
  }
  pump();
}

}  // namespace quern::sim
