// What the oracle sees at control: rows of the ledger, batches, verdicts.
#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "env/verdict/verdict.hpp"
#include "tools/sim/control.hpp"

namespace quern::sim {

using storage::sample_state;

/// Straight from the rows: the window's own account is what is being checked.
void control::check_issue(actors::group_id group) {
  const auto groups = ledger().live_groups();
  if (!must(groups)) return;
  const auto under_way = std::count_if(groups->begin(), groups->end(), [](const auto& row) {
    return std::any_of(row.samples.begin(), row.samples.end(), [](const auto& sample) {
      return sample.state != sample_state::consumed && storage::is_live(sample.state);
    });
  });
  const auto slots = (plan_.staleness.max_age + 1) * plan_.staleness.groups_per_step;
  if (under_way > slots)
    truth_.violated(fmt::format("group {} is issued: {} are under way, there are {} slots", group,
                                under_way, slots));
}

void control::check_batch(const actors::train_batch& batch) {
  std::set<actors::group_id> groups;
  for (const auto& sample : batch.samples)
    groups.insert(sample.group);
  for (const auto id : groups) {
    const auto row = ledger().group(id);
    if (!must(row)) return;
    const auto lost =
        std::count_if(row->samples.begin(), row->samples.end(),
                      [](const auto& sample) { return sample.drop_reason == "infra_error"; });
    if (2 * static_cast<std::size_t>(lost) > row->samples.size())
      truth_.violated(
          fmt::format("group {} trains, though {} of its {} samples were lost to infrastructure",
                      id, lost, row->samples.size()));
  }
}

void control::check_verdict(const actors::sample_verdict& verdict) {
  if (!verdict.counts || verdict.sample >= actors::first_seed_variant) return;
  const auto job = truth_.jobs.find(verdict.lease);
  if (job == truth_.jobs.end()) return truth_.violated("a verdict counts under no lease");
  if (job->second.source != truth_.source_of[verdict.sample])
    truth_.violated(fmt::format("sample {} gets a verdict about other tokens", verdict.sample));
  if (job->second.deadline_ns <= events_.now())
    truth_.violated(
        fmt::format("a verdict of sample {} counts after its lease ran out", verdict.sample));
  if (const auto told = env::parse_verdict(verdict.json); told && told->claim_e2)
    truth_.violated(
        fmt::format("a claim of sample {} counts, and was not measured again", verdict.sample));
}

/// A group of which nothing is to come has trained, waits to, or is gone.
void control::check_groups() {
  if (plan_.deterministic) return;  // groups wait for their turn there
  const auto groups = ledger().live_groups();
  if (!must(groups)) return;
  for (const auto& group : *groups) {
    const auto in = [&](sample_state state) {
      return std::count_if(group.samples.begin(), group.samples.end(),
                           [&](const auto& sample) { return sample.state == state; });
    };
    if (in(sample_state::evaluated) > 0 && in(sample_state::issued) == 0 &&
        in(sample_state::generated) == 0 && in(sample_state::admitted) == 0)
      truth_.violated(fmt::format("group {} can never train and keeps {} samples", group.id,
                                  in(sample_state::evaluated)));
  }
}

void control::check_end(const weights_ptr& learned_weights) {
  const auto counts = ledger().counts();
  if (!must(counts)) return;
  if (!counts->law_holds() || counts->in_flight() != 0)
    truth_.violated(fmt::format("at the end {} samples are in flight", counts->in_flight()));
  // The full walk over all events costs as much as the rest of a short run.
  if (plan_.seed % 8 == 0) must(ledger().audit());
  std::set<sample_id> learned;
  for (const auto* w = learned_weights.get(); w != nullptr; w = w->before.get())
    for (const auto sample : w->step)
      if (!learned.insert(sample).second)
        truth_.violated(fmt::format("the weights have learned sample {} twice", sample));
  const auto trained = ledger().in_state(sample_state::trained);
  if (!must(trained)) return;
  std::set<sample_id> rows;
  for (const auto& row : *trained)
    rows.insert(row.id);
  if (rows != learned)
    truth_.violated(fmt::format("the ledger calls {} samples trained, the weights have learned {}",
                                rows.size(), learned.size()));
}

std::string control::standing() const {
  if (!alive()) return "control is not there";
  const auto depths = life_now_->memory->queues();
  const auto& scheduler = life_now_->dispatch->scheduler();
  return fmt::format(
      "version {}, {} live: {} wait for tokens, {} for room, {} for a verdict, {} for their group, "
      "{} for a step; {} jobs, {} leased, {} waiting, {} hosts, stepping {}",
      version(), life_now_->memory->in_flight(), depths.tokens, depths.room, depths.verdict,
      depths.group, depths.step, scheduler.leases().jobs(), scheduler.leases().leased(),
      scheduler.queue().waiting(), scheduler.queue().hosts(), life_now_->memory->stepping());
}

}  // namespace quern::sim
