#include "actors/orchestrator/dispatch_head.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "actors/config/device_class.hpp"
#include "actors/decide/mutation.hpp"
#include "actors/decide/role_report.hpp"
#include "actors/decide/usable_devices.hpp"
#include "actors/measured_as.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "env/screen/canonical.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::actors {

using base::operator""_ms;

namespace {

/// Each evaluation has random numbers of its own: what one draws says nothing of the next.
std::uint64_t seed_of(const run_config& config, const lease& held) {
  const auto seed = static_cast<std::uint64_t>(config.run.seed);
  if (mutated(mutation::evaluations_share_a_seed)) return seed;
  return base::random_stream(
             seed, "evaluation",
             {static_cast<std::uint64_t>(held.sample), static_cast<std::uint64_t>(held.attempt)})
      .next_u64();
}

}  // namespace

dispatch_head::dispatch_head(settings chosen, const evaluation_scheduler::limits& limits)
    : settings_(std::move(chosen)),
      scheduler_(settings_.incarnation, limits),
      incarnation_(settings_.incarnation) {}

/// What no host holds is the orchestrator actor's again.
void dispatch_head::withdraw() {
  std::vector<sample_id> samples = scheduler_.withdraw_waiting();
  if (samples.empty()) return;
  for (const sample_id sample : samples)
    jobs_.erase(sample);
  effect<to_run_head>(jobs_withdrawn{incarnation_, std::move(samples)});
}

void dispatch_head::tell_present() {
  if (!sink_is_set_) return;
  evaluators_present now{static_cast<std::int64_t>(settings_.board->working()),
                         settings_.board->shortage()};
  if (now.count == told_.count && now.shortage == told_.shortage) return;
  told_ = now;
  effect<about_hosts>(std::move(now));
}

env::job_message dispatch_head::frame_of(const job_order& order) const {
  const evaluate_sample& job = jobs_.at(order.held.sample);
  const run_config& config = *settings_.config;
  env::job_message frame;
  frame.session = order.device.session;
  frame.lease = order.held.id;
  frame.device = order.device.device;
  frame.lane = config.env.lane;
  frame.sample = static_cast<std::uint64_t>(job.sample);
  frame.attempt = order.held.attempt;
  frame.deadline_ms = settings_.lease_ms;
  frame.protocol = measured_as(config);
  frame.policy = settings_.tasks->rules().policy;
  frame.recheck_above_e2 = settings_.tasks->rules().recheck_above_e2;
  frame.task_hash = base::parse_hash(env::task_hash_of(job.task)).value_or(base::hash128{});
  frame.source_hash = lane_of(config).identity(job.source);
  frame.seed = seed_of(config, order.held);
  frame.recheck = order.recheck ? 1 : 0;
  frame.best_known_e2 = job.best_known_e2;
  frame.claim_e2 = order.claim_e2;
  frame.source = job.source;
  return frame;
}

void dispatch_head::send_jobs(nanoseconds_t now) {
  if (draining_) withdraw();
  tell_present();
  while (auto order = scheduler_.next(now)) {
    holders_[order->held.id] = order->device;
    settings_.roles->job_sent(order->held.id, order->device);
    base::log_debug("dispatch", "sample {}, attempt {}, goes to host {:x}", order->held.sample,
                    order->held.attempt, order->device.session);
    effect<to_host>(frame_of(*order));
  }
  // A pause may end before the lease that the timer was set for runs out.
  const auto deadline = scheduler_.next_deadline();
  if (!deadline || (timer_ && *timer_ <= *deadline)) return;
  timer_ = deadline;
  effect<wake_at>(std::max(*deadline, now) + 1_ms);
}

void dispatch_head::cancel(lease_id lease) {
  settings_.roles->job_over(lease);
  if (const auto holder = holders_.extract(lease); !holder.empty())
    effect<to_host>(cancel_lease{holder.mapped().session, lease, holder.mapped().device});
}

/// What a lease's end means for the sample.
void dispatch_head::pass_on(const lease_result& result, lease_id lease, std::string json) {
  const auto job = jobs_.find(result.sample);
  if (job == jobs_.end()) return;
  sample_verdict news;
  news.incarnation = job->second.incarnation;
  news.sample = result.sample;
  news.lease = lease;
  news.attempt = result.attempt;
  news.counts = result.outcome == lease_outcome::accepted;
  news.exhausted = result.outcome == lease_outcome::exhausted;
  news.json = std::move(json);
  if (news.counts || news.exhausted) jobs_.erase(job);
  effect<to_run_head>(std::move(news));
}

std::string dispatch_head::infra_error(const evaluate_sample& job, const std::string& why) const {
  env::verdict verdict;
  verdict.kind = env::verdict_kind::infra_error;
  verdict.detail = why.substr(0, 1000);
  verdict.task = job.task;
  verdict.source = base::to_hex(lane_of(*settings_.config).identity(job.source));
  verdict.protocol = measured_as(*settings_.config);
  verdict.device_class = settings_.device_class;
  return base::dump(env::to_json(verdict));
}

/// A lease that ended without an answer from its host.
void dispatch_head::lost(const lease_result& result, const std::string& why) {
  const auto job = jobs_.find(result.sample);
  if (job == jobs_.end()) return;
  pass_on(result, 0, infra_error(job->second, why));
}

// ---- from the orchestrator ----

void dispatch_head::on_job(const evaluate_sample& job, nanoseconds_t now) {
  const job_request request{job.sample, settings_.config->env.lane, settings_.device_class,
                            std::nullopt, job.turn};
  if (auto queued = scheduler_.submit(request, job.attempt); !queued) {
    base::log_error("dispatch", "{}", queued.error().message);
    return effect<to_run_head>(fatal_problem{"dispatch", queued.error().message});
  }
  jobs_[job.sample] = job;
  sink_is_set_ = true;
  send_jobs(now);
}

void dispatch_head::on_committed(const verdict_committed& done) {
  scheduler_.committed(done.lease);
  if (const auto holder = holders_.extract(done.lease); !holder.empty())
    effect<to_host>(acknowledge_lease{holder.mapped().session, done.lease, true});
}

void dispatch_head::on_incarnation(const incarnation_began& began) {
  incarnation_ = began.incarnation;
  std::vector<sample_id> over;
  for (const auto& [sample, job] : jobs_) {
    if (job.incarnation != began.incarnation) over.push_back(sample);
  }
  for (const sample_id sample : over) {
    if (const auto held = scheduler_.cancel(sample)) cancel(held->id);
    jobs_.erase(sample);
  }
}

void dispatch_head::on_drain(nanoseconds_t now) {
  draining_ = true;
  send_jobs(now);
}

// ---- from hosts ----

void dispatch_head::on_joined(const host_joined& host) {
  host_offer offer;
  offer.lanes = host.lanes;
  for (const wire_device& device : host.devices)
    offer.devices.push_back({device.id, device.device_class, device.slots, device.lanes});
  const std::string &lane = settings_.config->env.lane, &of_run = settings_.device_class;
  const auto of_use = usable_devices(offer, lane, of_run);
  if (of_use.empty()) {
    const std::string why = fmt::format("this run measures lane {} on {}, this host offers {}",
                                        lane, of_run, classes_text(offer));
    return effect<to_host>(
        refuse_host{host.session, "device_class", why,
                    "connect a host of that lane and class, or start a run of its own"});
  }
  if (auto joined = scheduler_.host_joined(host.session, std::move(offer)); !joined)
    return effect<to_host>(refuse_host{host.session, "refused", joined.error().message, ""});
  if (of_use.size() < host.devices.size())
    base::log_info("dispatch",
                   "of the {} devices of host {} this run uses {}: those of lane {} on {}",
                   host.devices.size(), host.name, of_use.size(), lane, of_run);
  std::vector<board_device> listed;
  for (const std::int64_t device : of_use) {
    listed.push_back({device, of_run});
    settings_.roles->device_takes_work({host.session, device}, true);
  }
  devices_[host.session] = of_use;
  settings_.board->joined(host.session, {host.name, host.pid, host.lanes, listed});
  sink_is_set_ = sink_is_set_ || host.start != 0;
  tell_present();
  if (host.start != 0) {
    starts_[host.session] = host.start;
    effect<about_hosts>(process_contact{host.start, false, true});
  }
}

void dispatch_head::on_credit(const host_credit& credit, nanoseconds_t now) {
  if (auto taken = scheduler_.credit({credit.session, credit.device}, credit.granted); !taken)
    base::log_warn("dispatch", "{}", taken.error().message);
  send_jobs(now);
}

lease_result dispatch_head::result_of(const host_answer& answer, std::string& json,
                                      nanoseconds_t now) {
  if (answer.failed)
    return answer.returned ? scheduler_.returned(answer.session, answer.lease, now)
                           : scheduler_.failed(answer.session, answer.lease, now);
  const auto verdict = env::parse_verdict(answer.text);
  if (!verdict) {
    base::log_warn("dispatch", "an unreadable verdict: {}", verdict.error().message);
    json.clear();
    return scheduler_.failed(answer.session, answer.lease, now);
  }
  const auto holder = holders_.find(answer.lease);
  if (verdict->kind != env::verdict_kind::infra_error && holder != holders_.end() &&
      holder->second.session == answer.session)
    settings_.board->judged(answer.session, holder->second.device);
  return verdict->claim_e2
             ? scheduler_.claimed(answer.session, answer.lease, *verdict->claim_e2, now)
             : scheduler_.verdict(answer.session, answer.lease, verdict->kind, now);
}

void dispatch_head::on_answer(const host_answer& answer, nanoseconds_t now) {
  std::string json = answer.text;
  settings_.roles->job_over(answer.lease, device_wait_of(answer.text));
  const lease_result result = result_of(answer, json, now);
  switch (result.outcome) {
    case lease_outcome::accepted:
    case lease_outcome::retry:
    case lease_outcome::exhausted:
      if (!answer.failed) settings_.roles->did(run_role::evaluator, 1);
      if (answer.failed || json.empty()) {
        const auto job = jobs_.find(result.sample);
        if (job != jobs_.end()) json = infra_error(job->second, answer.text);
      }
      pass_on(result, answer.lease, std::move(json));
      break;
    case lease_outcome::pending:
      break;
    case lease_outcome::returned:
      base::log_info("dispatch", "sample {} was returned: {}", result.sample, answer.text);
      holders_.erase(answer.lease);
      [[fallthrough]];
    case lease_outcome::repeated:
      effect<to_host>(acknowledge_lease{answer.session, answer.lease, true});
      break;
    case lease_outcome::late:
    case lease_outcome::unknown:
      effect<to_host>(acknowledge_lease{answer.session, answer.lease, false});
      break;
  }
  send_jobs(now);
}

void dispatch_head::on_leaves(const host_leaves& host, nanoseconds_t now) {
  if (host.draining) settings_.board->draining(host.session);
  if (!host.draining) settings_.board->left(host.session);
  tell_present();
  if (host.draining) {
    settings_.roles->session_takes_no_work(host.session);
    scheduler_.host_draining(host.session);
    return send_jobs(now);
  }
  settings_.roles->session_over(host.session);
  devices_.erase(host.session);
  if (const auto known = starts_.extract(host.session))
    effect<about_hosts>(process_contact{known.mapped(), true, true});
  for (const lease_result& result : host.gives_back ? scheduler_.host_left(host.session, now)
                                                    : scheduler_.host_lost(host.session, now)) {
    if (result.outcome == lease_outcome::returned)
      base::log_info("dispatch", "sample {} was returned: {}", result.sample, host.why);
    else
      lost(result, "the host was lost: " + host.why);
  }
  send_jobs(now);
}

void dispatch_head::on_devices(const host_devices& host, nanoseconds_t now, std::int64_t unix_now) {
  std::map<std::int64_t, board_trouble> out;
  for (const wire_quarantine& device : host.quarantined)
    out[device.device] = {device.reason, unix_now - device.for_ms * 1'000'000};
  const std::vector<std::int64_t>& of_use = devices_[host.session];
  std::erase_if(out, [&](const auto& one) {
    return std::find(of_use.begin(), of_use.end(), one.first) == of_use.end();
  });
  for (const std::int64_t device : of_use) {
    const bool is_out = out.contains(device);
    scheduler_.device_out({host.session, device}, is_out);
    settings_.roles->device_takes_work({host.session, device}, !is_out);
  }
  const board_changes changes = settings_.board->troubles(host.session, std::move(out));
  for (const board_change& one : changes.out)
    base::log_error("dispatch", "{} takes no work: {}", one.device, one.trouble.reason);
  for (const board_change& one : changes.back)
    base::log_info("dispatch",
                   "{} has passed its test and takes work again, after {} in quarantine",
                   one.device, base::human_duration(unix_now - one.trouble.since_unix_ns));
  send_jobs(now);
}

void dispatch_head::on_time(nanoseconds_t now) {
  // One that was set earlier for later still comes; it may find nothing to do.
  if (timer_ && *timer_ <= now + 1_ms) timer_.reset();
  for (const auto& expired : scheduler_.expire(now)) {
    cancel(expired.held.id);
    lost(expired.result, "the lease ran out");
  }
  send_jobs(now);
}

}  // namespace quern::actors
