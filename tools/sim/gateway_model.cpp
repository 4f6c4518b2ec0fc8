// Frames of hosts, and what the oracle checks of jobs.
#include "tools/sim/gateway_model.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "base/clock.hpp"

namespace quern::sim {

gateway_model::gateway_model(const event_queue& events, oracle& truth,
                             actors::dispatch_head& dispatch, incarnation_id incarnation,
                             std::function<void(int, env::message)> to_host,
                             std::function<void()> carry_out)
    : events_(events),
      truth_(truth),
      dispatch_(dispatch),
      to_host_(std::move(to_host)),
      carry_out_(std::move(carry_out)),
      sessions_(incarnation, {silence_ns, 16}) {}

void gateway_model::send(actors::session_id session, const env::message& what) {
  const auto host = host_of_.find(session);
  if (host != host_of_.end()) to_host_(host->second, what);
}

void gateway_model::over(actors::session_id session, const std::string& why) {
  out_.erase(session);
  host_of_.erase(session);
  dispatch_.on_leaves({session, false, why, false}, events_.now());
  carry_out_();  // the next message is another one
}

void gateway_model::greet(int host, const env::hello_message& hello) {
  // A host keeps its name at the ROUTER over all its lives, which is the hardest case.
  const auto greeting =
      sessions_.hello({fmt::format("host{}", host), {}}, hello.nonce, events_.now());
  if (!greeting) return truth_.violated("control: " + greeting.error().message);
  if (greeting->ended) over(*greeting->ended, "the host started again");
  to_host_(host, env::welcome_message{greeting->session, hello.nonce, 1, lease_ns / 1'000'000,
                                      heartbeat_ms});
  host_of_[greeting->session] = host;
  if (!greeting->fresh) return;
  actors::host_joined news;
  news.session = greeting->session;
  news.lanes = hello.lanes;
  news.name = fmt::format("host{}", host);
  for (const auto& device : hello.devices)
    news.devices.push_back({device.id, device.device_class, device.slots, device.lanes});
  dispatch_.on_joined(news);
}

void gateway_model::hear_of_devices(const env::heartbeat_message& beat) {
  const bool out = !beat.quarantined.empty();
  if (out == out_.contains(beat.session)) return;
  if (out)
    out_.insert(beat.session);
  else
    out_.erase(beat.session);
  actors::host_devices news{beat.session, {}};
  for (const auto& device : beat.quarantined)
    news.quarantined.push_back({device.device, device.reason, device.for_ms});
  dispatch_.on_devices(news, events_.now(), base::unix_time_ns());
}

void gateway_model::answer(const actors::host_answer& said) {
  sessions_.answered(said.session, said.lease);
  // One that comes too late is no failure of the sample.
  const auto* open = dispatch_.scheduler().leases().find(said.lease);
  if (said.failed && !said.returned && open != nullptr && open->holder == said.session)
    truth_.failed_at[open->sample] = said.session;
  dispatch_.on_answer(said, events_.now());
}

void gateway_model::on_frame(int host, const env::message& what) {
  const actors::peer from{fmt::format("host{}", host), {}};
  const auto living = [&](std::uint64_t session) {
    if (sessions_.accept(session, from, events_.now())) return true;
    to_host_(host, env::error_message{"unknown_session", ""});
    return false;
  };
  if (const auto* hello = std::get_if<env::hello_message>(&what)) {
    greet(host, *hello);
  } else if (const auto* asked = std::get_if<env::credit_message>(&what)) {
    if (living(asked->session))
      dispatch_.on_credit({asked->session, asked->device, asked->n}, events_.now());
  } else if (const auto* in = std::get_if<env::verdict_message>(&what)) {
    if (living(in->session)) answer({in->session, in->lease, false, in->verdict, false});
  } else if (const auto* no = std::get_if<env::failed_message>(&what)) {
    if (living(no->session)) answer({no->session, no->lease, true, no->reason, no->returned != 0});
  } else if (const auto* need = std::get_if<env::need_message>(&what)) {
    if (living(need->session)) to_host_(host, env::task_message{need->task_hash, "a task"});
  } else if (const auto* beat = std::get_if<env::heartbeat_message>(&what)) {
    if (living(beat->session)) hear_of_devices(*beat);
  }
}

bool gateway_model::other_works(int but) const {
  const auto alive = sessions_.alive();
  return std::any_of(alive.begin(), alive.end(), [&](const auto session) {
    const auto host = host_of_.find(session);
    return host != host_of_.end() && host->second != but && !out_.contains(session);
  });
}

void gateway_model::send_job(const env::job_message& job) {
  const auto host = host_of_.find(job.session);
  if (host == host_of_.end()) return;
  const auto sample = static_cast<sample_id>(job.sample);
  if (!truth_.jobs
           .emplace(job.lease, oracle::sent_job{sample, host->second, base::xxh128(job.source),
                                                events_.now() + lease_ns})
           .second)
    truth_.violated(fmt::format("lease {:x} is given twice in the life of the run", job.lease));
  const std::pair asked{sample, job.attempt};
  if (const auto& first = truth_.seeds.emplace(job.seed, asked).first->second; first != asked)
    truth_.violated(
        fmt::format("samples {} and {} are evaluated with one seed", first.first, sample));
  if (out_.contains(job.session))
    truth_.violated(
        fmt::format("host {} is sent a job, though its device takes no work", host->second));
  if (++truth_.attempts[sample] > truth_.most_attempts + (truth_.claimed.contains(sample) ? 1 : 0))
    truth_.violated(
        fmt::format("sample {} is evaluated for the {}th time", sample, truth_.attempts[sample]));
  if (const auto failed = truth_.failed_at.find(sample); failed != truth_.failed_at.end()) {
    if (failed->second == job.session && other_works(host->second))
      truth_.violated(
          fmt::format("sample {} goes back to host {}, which failed at it, though "
                      "another one works",
                      sample, host->second));
    truth_.failed_at.erase(failed);
  }
  to_host_(host->second, job);
}

void gateway_model::carry(const actors::to_host& effect) {
  if (const auto* job = std::get_if<env::job_message>(&effect.message)) {
    send_job(*job);
  } else if (const auto* over_now = std::get_if<actors::acknowledge_lease>(&effect.message)) {
    send(over_now->session, env::verdict_ack_message{over_now->lease, over_now->accepted ? 1 : 0});
  } else if (const auto* taken = std::get_if<actors::cancel_lease>(&effect.message)) {
    send(taken->session, env::cancel_message{taken->session, taken->lease, taken->device});
    sessions_.cancel(taken->session, {taken->lease, taken->device});
  } else if (const auto* no = std::get_if<actors::refuse_host>(&effect.message)) {
    truth_.violated("control refuses a host: " + no->text);
  }
}

void gateway_model::tick() {
  for (const auto session : sessions_.expire(events_.now()))
    over(session, "silent for too long");
  for (const auto session : sessions_.alive()) {
    send(session, env::heartbeat_message{session});
    for (const auto& [lease, device] : sessions_.find(session)->cancelled)
      send(session, env::cancel_message{session, lease, device});
  }
}

}  // namespace quern::sim
