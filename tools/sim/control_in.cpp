// Control in the simulation: what generators, learner and hosts say.
#include <fmt/core.h>

#include "tools/sim/control.hpp"

namespace quern::sim {

using actors::lease_outcome;

namespace {

int most_attempts(const scenario& plan) {
  const auto r = desk_limits(plan).leases.retries;
  return r.noisy + r.infra_error + r.invalid_reference + r.unconfirmed + 1;
}

}  // namespace

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

void control::on_installed(int generator, std::int64_t incarnation, epoch_id epoch,
                           const base::hash128& hash) {
  // An actor is known by its address, which a new process does not share with the dead one.
  if (incarnation < living_[static_cast<std::size_t>(generator)]) return;
  if (!alive_ || epoch != epoch_) return;
  attested_[static_cast<std::size_t>(generator)] = hash;
  pump();
}

void control::on_step(const step_request& of, const weights_ptr& made, bool left_out,
                      bool offered) {
  if (!alive_) return;
  const auto news = left_out ? book_->left_out(of.epoch, of.number)
                             : book_->stepped(of.epoch, of.from, made->hash);
  if (!must(news) || !news->counted) return;
  if (left_out) {
    must(book_->know_weights(of.from, made->hash));
    stepping_.reset();
    apply(news->changes);
    pump();
    return;
  }
  if (made->version != book_->version()) {
    truth_.violated(fmt::format("control counts {} steps where the learner has made {}",
                                book_->version(), made->version));
  }
  stepping_.reset();
  newest_ = made;
  apply(news->changes);
  if (offers_.stepped(made->version, offered)) announce(made);
  pump();
}

void control::on_offered(epoch_id epoch, const weights_ptr& made) {
  if (!alive_ || epoch != epoch_) return;
  if (offers_.offered(made->version)) announce(made);
}

void control::announce(const weights_ptr& offered) {
  announced_ = offered;
  for (int g = 0; g < plan_.generators; ++g)
    out_.install(g, epoch_, announced_);
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
      for (const auto& result : desk_->host_lost(*greeting->ended, now))
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
    case lease_outcome::returned:
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

}  // namespace quern::sim
