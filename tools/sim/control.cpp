// What the actors of control do with each message, without actors.
#include "tools/sim/control.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "actors/decide/mutation.hpp"

namespace quern::sim {

using actors::lease_outcome;
using actors::mutated;
using actors::mutation;
using base::operator""_ms;
using storage::sample_state;

namespace {

constexpr std::string_view lane = "cpp";
constexpr std::string_view device_class = "cpp-sim";
constexpr nanoseconds_t lease_ns = 250_ms;
constexpr nanoseconds_t silence_ns = 500_ms;
constexpr nanoseconds_t repeat_ns = 300_ms;
constexpr std::int64_t heartbeat_ms = 100;

actors::evaluation_desk::limits desk_limits(const scenario& plan) {
  actors::evaluation_desk::limits limits;
  limits.leases.lease_ns = lease_ns;
  limits.queue.queue = 64;
  // The result of a deterministic run must not depend on how many hosts died.
  if (plan.deterministic) limits.leases.retries.infra_error = 1'000'000;
  return limits;
}

int most_attempts(const scenario& plan) {
  const auto r = desk_limits(plan).leases.retries;
  return r.noisy + r.infra_error + r.invalid_reference + r.unconfirmed + 1;
}

}  // namespace

control::control(event_queue& events, oracle& truth, const scenario& plan, storage::database& db,
                 wires out)
    : events_(events), truth_(truth), plan_(plan), db_(db), out_(std::move(out)) {
  attested_.resize(static_cast<std::size_t>(plan.generators));
}

template <class T>
bool control::must(const base::expected<T>& result) {
  if (!result) truth_.violated("control: " + result.error().message);
  return result.has_value();
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

void control::generator_died(int generator) {
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

// ---- what comes in ----

void control::on_sample(int, const generated_sample& in) {
  if (!alive_) return;
  const auto news = book_->generated(in.epoch, in.sample, in.tokens, in.segments);
  if (!must(news) || !news->counted) return;
  must_accept(ledger_->generated({in.sample, in.epoch, in.segments, in.content}), in.sample);
  tokens_[in.sample] = in.content;
  asked_.erase(in.sample);
  apply(news->changes);
  pump();
}

void control::on_installed(int generator, epoch_id epoch, const base::hash128& hash) {
  if (!alive_ || epoch != epoch_) return;
  attested_[static_cast<std::size_t>(generator)] = hash;
  pump();
}

void control::on_step(epoch_id epoch, weights_version from, const weights_ptr& made) {
  if (!alive_) return;
  const auto news = book_->stepped(epoch, from, made->hash);
  if (!must(news) || !news->counted) return;
  if (made->version != book_->version()) {
    truth_.violated(fmt::format("control counts {} steps where the learner has made {}",
                                book_->version(), made->version));
  }
  stepping_.reset();
  newest_ = made;
  apply(news->changes);
  for (int g = 0; g < plan_.generators; ++g)
    out_.install(g, epoch_, newest_);
  pump();
}

void control::on_saved(epoch_id epoch, weights_version version, const base::hash128& hash) {
  // A checkpoint of a step that is not counted yet has to wait: it is asked for again.
  if (!alive_ || epoch != epoch_ || version <= recorded_ || version > book_->version()) return;
  saving_ = false;
  must(ledger_->commit());
  settle_commit();
  const auto trained =
      ledger_->record_checkpoint({version, epoch_, fmt::format("v{:08}", version), hash});
  if (must(trained)) recorded_ = version;
  pump();
}

void control::on_host(int host, const env::message& what) {
  if (!alive_) return;
  // A host keeps its name at the ROUTER over all its lives, which is the hardest case.
  const actors::peer from{fmt::format("host{}", host), {}};
  const auto now = events_.now();
  const auto living = [&](std::uint64_t session) {
    if (sessions_->accept(session, from, now)) return true;
    out_.to_host(host, env::error_message{"unknown_session", ""});
    return false;
  };
  if (const auto* hello = std::get_if<env::hello_message>(&what)) {
    const auto greeting = sessions_->hello(from, hello->nonce, now);
    if (!must(greeting)) return;
    if (greeting->ended) {
      for (const auto& result : desk_->host_lost(*greeting->ended))
        note_lease(result);
    }
    if (greeting->fresh) {
      host_of_[greeting->session] = host;
      must(desk_->host_joined(
          greeting->session,
          {hello->lanes, {{0, hello->devices[0].device_class, hello->devices[0].slots}}}));
    }
    out_.to_host(host, env::welcome_message{greeting->session, hello->nonce, 1,
                                            lease_ns / 1'000'000, heartbeat_ms});
  } else if (const auto* asked = std::get_if<env::credit_message>(&what)) {
    // A refusal is the host's fault and answered with ERROR; here it would be ours.
    if (living(asked->session)) must(desk_->credit({asked->session, asked->device}, asked->n));
  } else if (const auto* in = std::get_if<env::verdict_message>(&what)) {
    if (!living(in->session)) return;
    sessions_->answered(in->session, in->lease);
    const auto kind = static_cast<env::verdict_kind>(std::stoi(in->verdict));
    on_result(host, in->session, in->lease, desk_->verdict(in->session, in->lease, kind, now),
              in->verdict);
  } else if (const auto* failure = std::get_if<env::failed_message>(&what)) {
    if (!living(failure->session)) return;
    sessions_->answered(failure->session, failure->lease);
    on_result(host, failure->session, failure->lease,
              desk_->failed(failure->session, failure->lease, now), failure->reason);
  } else if (const auto* need = std::get_if<env::need_message>(&what)) {
    if (living(need->session)) out_.to_host(host, env::task_message{need->task_hash, "a task"});
  } else if (const auto* beat = std::get_if<env::heartbeat_message>(&what)) {
    (void)living(beat->session);
  }
  pump();
}

void control::on_result(int host, actors::session_id, actors::lease_id lease,
                        const actors::lease_result& result, const std::string& text) {
  const auto acknowledge = [this, host, lease](bool accepted) {
    out_.to_host(host, env::verdict_ack_message{lease, accepted ? 1 : 0});
  };
  switch (result.outcome) {
    case lease_outcome::pending:
      return;
    case lease_outcome::repeated:
      acknowledge(true);
      return;
    case lease_outcome::late:
    case lease_outcome::unknown:
      acknowledge(false);
      return;
    default:
      break;
  }
  const bool counts = result.outcome == lease_outcome::accepted;
  storage::verdict_row row;
  row.sample = result.sample;
  row.epoch = epoch_;
  row.attempt = result.attempt;
  row.counts = counts;
  row.task = "task";
  row.protocol = "paired/1";
  row.device_class = device_class;
  row.json = "{}";
  must_accept(ledger_->evaluated(row), result.sample);
  if (counts) {
    const auto tokens = tokens_.find(result.sample);
    if (tokens == tokens_.end() || text.find(to_hex(tokens->second)) == std::string::npos) {
      truth_.violated(fmt::format("sample {} gets a verdict about other tokens", result.sample));
    }
    submitted_.erase(result.sample);
    const auto news = book_->evaluated(epoch_, result.sample);
    if (!must(news)) return;
    if (!news->counted) {
      truth_.violated(fmt::format("a verdict of sample {} counts for the desk, not for the book",
                                  result.sample));
    }
    apply(news->changes);
  }
  note_lease(result);
  after_commit_.push_back([this, lease, acknowledge] {
    desk_->committed(lease);
    acknowledge(true);
  });
  want_commit();
}

void control::note_lease(const actors::lease_result& result) {
  if (result.outcome != lease_outcome::retry && result.outcome != lease_outcome::exhausted) return;
  if (result.attempt + 1 > most_attempts(plan_)) {
    truth_.violated(
        fmt::format("sample {} is evaluated for the {}th time", result.sample, result.attempt + 1));
  }
  if (result.outcome != lease_outcome::exhausted) return;
  submitted_.erase(result.sample);
  const auto news = book_->dropped(epoch_, result.sample, to_string(result.cause));
  if (must(news)) apply(news->changes);
}

// ---- what goes out ----

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

void control::form_batch() {
  const auto news = book_->next_batch();
  if (!must(news)) return;
  apply(news->changes);
  if (!news->next) return;
  step_request request{epoch_, news->next->from, {}};
  for (const auto& group : news->next->groups) {
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
    for (const auto& result : desk_->host_lost(session))
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
    if (attested_[static_cast<std::size_t>(g)] != newest_->hash) out_.install(g, epoch_, newest_);
  }
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

// ---- the end ----

bool control::settled() const {
  return alive_ && !stepping_ && !saving_ && ledger_->durable() && desk_->idle() &&
         book_->version() == recorded_ && book_->parked() == 0 &&
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
      "version {} (recorded {}), {} live, {} parked, {} issued, {} generated, {} jobs, {} leased, "
      "{} "
      "waiting, {} hosts, step {}, save {}, durable {}, {} charged, next group {}, installed {}",
      book_->version(), recorded_, book_->live(), book_->parked(),
      book_->in_state(sample_state::issued).size(), book_->in_state(sample_state::generated).size(),
      desk_->leases().jobs(), desk_->leases().leased(), desk_->queue().waiting(),
      desk_->queue().hosts(), stepping_.has_value(), saving_, ledger_->durable(),
      book_->window().charged(), book_->next_sequence(), installed());
}

}  // namespace quern::sim
