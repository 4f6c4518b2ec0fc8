// What the actors of control do with each message, without actors.
#include "tools/sim/control.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "actors/decide/mutation.hpp"

namespace quern::sim {

using actors::mutated;
using actors::mutation;
using storage::sample_state;

actors::evaluation_desk::limits desk_limits(const scenario& plan) {
  actors::retry_limits retries{2, 3, 1, 1};
  // The result of a deterministic run must not depend on how many hosts died.
  if (plan.deterministic) retries.infra_error = 1'000'000;
  actors::evaluation_desk::limits limits({retries, lease_ns});
  limits.queue.queue = 64;
  limits.pause.patience_ns = pause_patience_ns;
  return limits;
}

control::control(event_queue& events, oracle& truth, const scenario& plan, storage::database& db,
                 wires out)
    : events_(events), truth_(truth), plan_(plan), db_(db), out_(std::move(out)) {
  attested_.resize(static_cast<std::size_t>(plan.generators));
  living_.resize(attested_.size());
}

void control::must_accept(const base::expected<storage::arrived>& result, sample_id sample) {
  if (must(result) && result->outcome != storage::arrival::accepted) {
    truth_.violated(fmt::format("sample {}: counted, but the ledger calls it {}", sample,
                                result->outcome == storage::arrival::late ? "late" : "stale"));
  }
}

// ---- epochs ----

void control::boot() {
  alive_ = true;
  auto opened = storage::ledger::open(db_);
  if (!must(opened)) return;
  ledger_ = std::move(*opened);
  auto counting = db_.prepare(
      "SELECT count(DISTINCT grp) FROM samples WHERE state IN ('issued', 'generated', 'evaluated', "
      "'admitted')");
  if (!must(counting)) return;
  count_groups_ = std::move(*counting);
  begin_epoch("start");
  desk_.emplace(epoch_, desk_limits(plan_));
  sessions_.emplace(epoch_, actors::session_book::limits{silence_ns, 16});
  host_of_.clear();
  pump();
}

void control::die() {
  alive_ = false;
  ++life_;
  after_commit_.clear();
  commit_planned_ = false;
  ledger_.reset();
  count_groups_ = storage::statement();
  // What a process had not committed when it died is not in the database that the next one opens.
  (void)db_.execute("ROLLBACK; BEGIN IMMEDIATE");
}

void control::begin_epoch(const std::string& reason) {
  const auto position = ledger_->position();
  if (!must(position)) return;
  recorded_ = position->checkpoint ? position->checkpoint->version : 0;
  const auto report = ledger_->open_epoch({reason, recorded_, {}});
  if (!must(report)) return;
  epoch_ = report->epoch;
  if (mutated(mutation::epoch_not_bumped) && epoch_ > 1) --epoch_;

  auto book = actors::replay_book::make(epoch_, recorded_, {plan_.staleness, plan_.deterministic},
                                        position->next_seq);
  if (!must(book)) return;
  book_.emplace(std::move(*book));
  newest_ = truth_.checkpoints.at(recorded_);
  for (const auto* w = newest_.get(); w != nullptr; w = w->before.get()) {
    must(book_->know_weights(w->version, w->hash));
  }
  announced_ = newest_;
  offers_ = actors::offer_book(recorded_);
  saving_ = false;
  stepping_.reset();
  asked_.clear();
  tokens_.clear();
  submitted_.clear();
  evaluations_.clear();
  std::fill(attested_.begin(), attested_.end(), base::hash128{});
  const auto groups = ledger_->live_groups();
  if (!must(groups)) return;
  for (const auto& group : *groups) {
    must(book_->restore(group));
    for (const auto& sample : group.samples) {
      if (sample.tokens_hash) tokens_[sample.id] = *sample.tokens_hash;
    }
  }
  const auto changes = book_->restored();
  if (must(changes)) apply(*changes);
  out_.start_learner(epoch_, newest_);
  for (int g = 0; g < plan_.generators; ++g)
    out_.install(g, epoch_, newest_);
}

void control::learner_died() {
  if (!alive_) return;
  must(ledger_->commit());
  settle_commit();
  // Evaluations of the old epoch are of no use: their holders are told, their verdicts are late.
  for (const auto sample : submitted_) {
    if (const auto held = desk_->cancel(sample)) {
      const auto host = host_of_.find(held->holder);
      if (host != host_of_.end()) {
        sessions_->cancel(held->holder, {held->id, 0});
        out_.to_host(host->second, env::cancel_message{held->holder, held->id, 0});
      }
    }
  }
  begin_epoch("the learner died");
  pump();
}

void control::generator_died(int generator, std::int64_t next) {
  living_[static_cast<std::size_t>(generator)] = next;
  if (!alive_) return;
  attested_[static_cast<std::size_t>(generator)] = {};
  asked_.clear();
}

// ---- the ledger ----

void control::want_commit() {
  if (commit_planned_) return;
  commit_planned_ = true;
  events_.in(events_.between_ms(1, 8), [this, life = life_] {
    if (!alive_ || life != life_) return;
    commit_planned_ = false;
    must(ledger_->commit());
    settle_commit();
    pump();
  });
}

void control::settle_commit() {
  for (const auto& act : std::exchange(after_commit_, {}))
    act();
}

void control::apply(const std::vector<actors::transition>& changes) {
  std::vector<sample_id> consumed;
  for (const auto& change : changes) {
    switch (change.to) {
      case sample_state::admitted: {
        const storage::admission admitted{change.sample, 1.0};
        must(ledger_->admit({&admitted, 1}));
        break;
      }
      case sample_state::consumed:
        consumed.push_back(change.sample);
        break;
      case sample_state::dropped:
        must(ledger_->drop({&change.sample, 1}, change.reason));
        break;
      default:
        break;  // written by the caller, with what belongs to it
    }
  }
  if (!consumed.empty()) must(ledger_->consume(consumed, book_->version()));
  if (!changes.empty()) want_commit();
}

// ---- the end ----

bool control::settled() const {
  return alive_ && !stepping_ && !saving_ && ledger_->durable() && desk_->idle() &&
         announced_ == newest_ && book_->version() == recorded_ && book_->parked() == 0 &&
         book_->in_state(sample_state::issued).empty() &&
         book_->in_state(sample_state::generated).empty();
}

void control::stop() {
  if (!must(ledger_->stop())) return;
  const auto counts = ledger_->counts();
  if (!must(counts)) return;
  if (!counts->law_holds() || counts->in_flight() != 0) {
    truth_.violated(fmt::format("at the end {} samples are in flight", counts->in_flight()));
  }
  // The full walk over all events costs as much as the rest of a short run.
  if (plan_.seed % 8 == 0) must(ledger_->audit());
  std::set<sample_id> learned;
  for (const auto* w = newest_.get(); w != nullptr; w = w->before.get()) {
    for (const auto sample : w->step) {
      if (!learned.insert(sample).second) {
        truth_.violated(fmt::format("the weights have learned sample {} twice", sample));
      }
    }
  }
  const auto trained = ledger_->in_state(sample_state::trained);
  if (!must(trained)) return;
  std::set<sample_id> rows;
  for (const auto& row : *trained)
    rows.insert(row.id);
  if (rows != learned) {
    truth_.violated(fmt::format("the ledger calls {} samples trained, the weights have learned {}",
                                rows.size(), learned.size()));
  }
}

std::string control::standing() const {
  if (!alive_) return "control is not there";
  return fmt::format(
      "version {} (recorded {}, announced {}), {} live, {} parked, {} issued, {} generated, {} "
      "jobs, {} leased, "
      "{} "
      "waiting, {} hosts, step {}, save {}, durable {}, {} charged, next group {}, installed {}",
      book_->version(), recorded_, announced_->version, book_->live(), book_->parked(),
      book_->in_state(sample_state::issued).size(), book_->in_state(sample_state::generated).size(),
      desk_->leases().jobs(), desk_->leases().leased(), desk_->queue().waiting(),
      desk_->queue().hosts(), stepping_.has_value(), saving_, ledger_->durable(),
      book_->window().charged(), book_->next_sequence(), installed());
}

}  // namespace quern::sim
