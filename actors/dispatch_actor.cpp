#include "actors/dispatch_actor.hpp"

#include <algorithm>
#include <future>
#include <map>
#include <unordered_map>

#include "actors/actor_guard.hpp"
#include "actors/config/device_class.hpp"
#include "actors/decide/role_report.hpp"
#include "actors/decide/usable_devices.hpp"
#include "actors/defaults.hpp"
#include "actors/host_news.hpp"
#include "actors/measured_as.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "env/screen/canonical.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::actors {
namespace {

struct dispatch_state {
  dispatch_state() = default;
  // Not an aggregate: see QUERN_STATE.
  ~dispatch_state() {}
  dispatch_setup setup;
  std::shared_ptr<dispatch_sink> sink;
  std::unique_ptr<gateway_events> events;
  std::unique_ptr<gateway> hosts;
  std::unique_ptr<evaluation_desk> desk;
  std::unordered_map<sample_id, evaluate_sample> jobs;
  std::unordered_map<lease_id, device_key> holders;     ///< until acknowledged or cancelled
  std::unordered_map<session_id, std::int32_t> starts;  ///< of hosts that the run started
  std::unordered_map<session_id, std::vector<std::int64_t>> devices;
  evaluators_present told;   ///< what the supervisor knows
  bool sink_is_set = false;  ///< processes or jobs of the run have come
  base::steady_clock clock;
  epoch_id epoch = 0;
  std::optional<base::nanoseconds_t> timer;  ///< when the next `tick` comes
  bool draining = false;                     ///< nothing is sent to hosts any more
};
QUERN_STATE(dispatch_state);

using dispatch_ptr = dispatch_ref::stateful_pointer<dispatch_state>;

/// What no host holds is the replay actor's again.
void withdraw(dispatch_ptr self) {
  dispatch_state& state = self->state;
  std::vector<sample_id> samples = state.desk->withdraw_waiting();
  if (samples.empty()) return;
  for (const sample_id sample : samples)
    state.jobs.erase(sample);
  self->send(state.sink->replay, jobs_withdrawn{state.epoch, std::move(samples)});
}

void tell_present(dispatch_ptr self) {
  dispatch_state& state = self->state;
  if (!state.sink_is_set) return;
  evaluators_present now{static_cast<std::int64_t>(state.setup.board->working()),
                         state.setup.board->shortage()};
  if (now.count == state.told.count && now.shortage == state.told.shortage) return;
  state.told = now;
  self->send(state.sink->supervisor, std::move(now));
}

void send_jobs(dispatch_ptr self) {
  dispatch_state& state = self->state;
  if (state.draining) withdraw(self);
  tell_present(self);
  const base::nanoseconds_t now = state.clock.now_ns();
  while (auto order = state.desk->next(now)) {
    const evaluate_sample& job = state.jobs.at(order->held.sample);
    env::job_message frame;
    frame.session = order->device.session;
    frame.lease = order->held.id;
    frame.device = order->device.device;
    frame.lane = state.setup.config->env.lane;
    frame.sample = static_cast<std::uint64_t>(job.sample);
    frame.attempt = order->held.attempt;
    frame.deadline_ms = state.setup.gateway.lease_ms;
    frame.protocol = measured_as(*state.setup.config);
    frame.policy = state.setup.tasks->rules().policy;
    frame.recheck_above_e2 = state.setup.tasks->rules().recheck_above_e2;
    frame.task_hash = base::parse_hash(env::task_hash_of(job.task)).value_or(base::hash128{});
    frame.source_hash = lane_of(*state.setup.config).identity(job.source);
    frame.seed = static_cast<std::uint64_t>(state.setup.config->run.seed);
    frame.recheck = order->recheck ? 1 : 0;
    frame.best_known_e2 = job.best_known_e2;
    frame.claim_e2 = order->claim_e2;
    frame.source = job.source;
    state.holders[frame.lease] = order->device;
    state.setup.roles->job_sent(frame.lease, order->device);
    base::log_debug("dispatch", "sample {}, attempt {}, goes to host {:x}", job.sample,
                    order->held.attempt, frame.session);
    state.hosts->send_job(std::move(frame));
  }
  // A pause may end before the lease that the timer was set for runs out.
  const auto deadline = state.desk->next_deadline();
  if (!deadline || (state.timer && *state.timer <= *deadline)) return;
  state.timer = deadline;
  const auto wait = std::max<base::nanoseconds_t>(*deadline - now, 0);
  self->delayed_send(self, std::chrono::nanoseconds(wait) + std::chrono::milliseconds(1), tick{});
}

void cancel(dispatch_state& state, lease_id lease) {
  state.setup.roles->job_over(lease);
  if (const auto holder = state.holders.extract(lease); !holder.empty()) {
    state.hosts->cancel(holder.mapped().session, lease, holder.mapped().device);
  }
}

/// What a lease's end means for the sample: tells the replay actor.
void pass_on(dispatch_ptr self, const lease_result& result, lease_id lease, std::string json) {
  dispatch_state& state = self->state;
  const auto job = state.jobs.find(result.sample);
  if (job == state.jobs.end()) return;
  sample_verdict news;
  news.epoch = job->second.epoch;
  news.sample = result.sample;
  news.lease = lease;
  news.attempt = result.attempt;
  news.counts = result.outcome == lease_outcome::accepted;
  news.exhausted = result.outcome == lease_outcome::exhausted;
  news.json = std::move(json);
  if (news.counts || news.exhausted) state.jobs.erase(job);
  self->send(state.sink->replay, std::move(news));
}

std::string infra_error(const dispatch_state& state, const evaluate_sample& job,
                        const std::string& why) {
  env::verdict verdict;
  verdict.kind = env::verdict_kind::infra_error;
  verdict.detail = why.substr(0, 1000);
  verdict.task = job.task;
  verdict.source = base::to_hex(lane_of(*state.setup.config).identity(job.source));
  verdict.protocol = measured_as(*state.setup.config);
  verdict.device_class = state.setup.device_class;
  return base::dump(env::to_json(verdict));
}

/// A lease that ended without an answer from its host.
void lost(dispatch_ptr self, const lease_result& result, const std::string& why) {
  const auto job = self->state.jobs.find(result.sample);
  if (job == self->state.jobs.end()) return;
  pass_on(self, result, 0, infra_error(self->state, job->second, why));
}

void on_answer(dispatch_ptr self, const host_answer& answer) {
  dispatch_state& state = self->state;
  const base::nanoseconds_t now = state.clock.now_ns();
  lease_result result;
  std::string json = answer.text;
  state.setup.roles->job_over(answer.lease, device_wait_of(answer.text));
  if (answer.failed) {
    result = answer.returned ? state.desk->returned(answer.session, answer.lease, now)
                             : state.desk->failed(answer.session, answer.lease, now);
  } else {
    const auto verdict = env::parse_verdict(answer.text);
    if (!verdict) base::log_warn("dispatch", "an unreadable verdict: {}", verdict.error().message);
    const auto holder = state.holders.find(answer.lease);
    if (verdict && verdict->kind != env::verdict_kind::infra_error &&
        holder != state.holders.end() && holder->second.session == answer.session)
      state.setup.board->judged(answer.session, holder->second.device);
    result = !verdict ? state.desk->failed(answer.session, answer.lease, now)
             : verdict->claim_e2
                 ? state.desk->claimed(answer.session, answer.lease, *verdict->claim_e2, now)
                 : state.desk->verdict(answer.session, answer.lease, verdict->kind, now);
    if (!verdict) json.clear();
  }
  switch (result.outcome) {
    case lease_outcome::accepted:
    case lease_outcome::retry:
    case lease_outcome::exhausted:
      if (!answer.failed) state.setup.roles->did(run_role::evaluator, 1);
      if (answer.failed || json.empty()) {
        const auto job = state.jobs.find(result.sample);
        if (job != state.jobs.end()) json = infra_error(state, job->second, answer.text);
      }
      pass_on(self, result, answer.lease, std::move(json));
      break;
    case lease_outcome::pending:
      break;
    case lease_outcome::returned:
      base::log_info("dispatch", "sample {} was returned: {}", result.sample, answer.text);
      state.holders.erase(answer.lease);
      [[fallthrough]];
    case lease_outcome::repeated:
      state.hosts->acknowledge(answer.session, answer.lease, true);
      break;
    case lease_outcome::late:
    case lease_outcome::unknown:
      state.hosts->acknowledge(answer.session, answer.lease, false);
      break;
  }
  send_jobs(self);
}

void on_devices(dispatch_ptr self, const host_devices& host) {
  dispatch_state& state = self->state;
  std::map<std::int64_t, board_trouble> out;
  for (const wire_quarantine& device : host.quarantined)
    out[device.device] = {device.reason, base::unix_time_ns() - device.for_ms * 1'000'000};
  const std::vector<std::int64_t>& of_use = state.devices[host.session];
  std::erase_if(out, [&](const auto& one) {
    return std::find(of_use.begin(), of_use.end(), one.first) == of_use.end();
  });
  for (const std::int64_t device : of_use) {
    const bool is_out = out.contains(device);
    state.desk->device_out({host.session, device}, is_out);
    state.setup.roles->device_takes_work({host.session, device}, !is_out);
  }
  const board_changes changes = state.setup.board->troubles(host.session, std::move(out));
  for (const board_change& one : changes.out)
    base::log_error("dispatch", "{} takes no work: {}", one.device, one.trouble.reason);
  for (const board_change& one : changes.back)
    base::log_info(
        "dispatch", "{} has passed its test and takes work again, after {} in quarantine",
        one.device, base::human_duration(base::unix_time_ns() - one.trouble.since_unix_ns));
  send_jobs(self);
}

void on_joined(dispatch_ptr self, const host_joined& host) {
  dispatch_state& state = self->state;
  host_offer offer;
  offer.lanes = host.lanes;
  for (const wire_device& device : host.devices)
    offer.devices.push_back({device.id, device.device_class, device.slots, device.lanes});
  const std::string &lane = state.setup.config->env.lane, &of_run = state.setup.device_class;
  const auto of_use = usable_devices(offer, lane, of_run);
  if (of_use.empty()) {
    state.hosts->refuse(host.session, "device_class",
                        fmt::format("this run measures lane {} on {}, this host offers {}", lane,
                                    of_run, classes_text(offer)),
                        "connect a host of that lane and class, or start a run of its own");
    return;
  }
  if (auto joined = state.desk->host_joined(host.session, std::move(offer)); !joined) {
    state.hosts->refuse(host.session, "refused", joined.error().message, "");
    return;
  }
  if (of_use.size() < host.devices.size())
    base::log_info("dispatch",
                   "of the {} devices of host {} this run uses {}: those of lane {} on {}",
                   host.devices.size(), host.name, of_use.size(), lane, of_run);
  std::vector<board_device> listed;
  for (const std::int64_t device : of_use) {
    listed.push_back({device, of_run});
    state.setup.roles->device_takes_work({host.session, device}, true);
  }
  state.devices[host.session] = of_use;
  state.setup.board->joined(host.session, {host.name, host.pid, host.lanes, listed});
  state.sink_is_set = state.sink_is_set || host.start != 0;
  tell_present(self);
  if (host.start != 0) {
    state.starts[host.session] = host.start;
    self->send(state.sink->supervisor, process_contact{host.start, false, true});
  }
}

void on_leaves(dispatch_ptr self, const host_leaves& host) {
  dispatch_state& state = self->state;
  if (host.draining) state.setup.board->draining(host.session);
  if (!host.draining) state.setup.board->left(host.session);
  tell_present(self);
  if (host.draining) {
    state.setup.roles->session_takes_no_work(host.session);
    state.desk->host_draining(host.session);
    return send_jobs(self);
  }
  state.setup.roles->session_over(host.session);
  state.devices.erase(host.session);
  if (const auto known = state.starts.extract(host.session)) {
    self->send(state.sink->supervisor, process_contact{known.mapped(), true, true});
  }
  const base::nanoseconds_t now = state.clock.now_ns();
  for (const lease_result& result : host.gives_back ? state.desk->host_left(host.session, now)
                                                    : state.desk->host_lost(host.session, now)) {
    if (result.outcome == lease_outcome::returned)
      base::log_info("dispatch", "sample {} was returned: {}", result.sample, host.why);
    else
      lost(self, result, "the host was lost: " + host.why);
  }
  send_jobs(self);
}

void on_epoch(dispatch_ptr self, const epoch_began& began) {
  dispatch_state& state = self->state;
  state.epoch = began.epoch;
  std::vector<sample_id> over;
  for (const auto& [sample, job] : state.jobs) {
    if (job.epoch != began.epoch) over.push_back(sample);
  }
  for (const sample_id sample : over) {
    if (const auto held = state.desk->cancel(sample)) cancel(state, held->id);
    state.jobs.erase(sample);
  }
}

/// What spawn_dispatch hands over, and where it waits for the gateway to be bound.
struct opening {
  dispatch_setup setup;
  std::shared_ptr<dispatch_sink> sink;
  std::promise<base::status> bound;
};

dispatch_ref::behavior_type dispatch_actor(dispatch_ptr self, std::shared_ptr<opening> with) {
  dispatch_state& state = self->state;
  end_on_exception(
      self, "dispatch", [self, waiting = std::weak_ptr(with)](const std::string& what) {
        if (const auto asked = waiting.lock())
          return asked->bound.set_value(base::fail(base::errc::exhausted, "dispatch: {}", what));
        self->send(self->state.sink->supervisor, fatal_problem{"dispatch", what});
      });
  state.setup = with->setup;
  state.sink = with->sink;
  if (!state.setup.board) state.setup.board = std::make_shared<device_board>();
  if (!state.setup.roles) state.setup.roles = std::make_shared<role_board>(state.clock);
  state.events = forward_host_news(*state.setup.tasks, caf::actor_cast<dispatch_ref>(self));
  auto started = gateway::start(state.setup.gateway, *state.events, state.clock);
  if (!started) {
    with->bound.set_value(tl::make_unexpected(started.error()));
    self->quit();
    return dispatch_ref::behavior_type::make_empty_behavior();
  }
  state.hosts = std::move(*started);
  state.sink->endpoints = state.hosts->endpoints();
  evaluation_desk::limits limits(
      {retry_limits::within(state.setup.config->env.max_attempts),
       static_cast<base::nanoseconds_t>(state.setup.config->actors.lease_s * 1e9)});
  limits.queue.queue = state.setup.queue;
  state.desk = std::make_unique<evaluation_desk>(state.setup.epoch, limits);
  state.epoch = state.setup.epoch;
  with->bound.set_value({});
  return {
      [=](const evaluate_sample& job) {
        job_request request{job.sample, self->state.setup.config->env.lane,
                            self->state.setup.device_class, std::nullopt, job.turn};
        if (auto queued = self->state.desk->submit(request, job.attempt); !queued) {
          base::log_error("dispatch", "{}", queued.error().message);
          return self->send(self->state.sink->replay,
                            fatal_problem{"dispatch", queued.error().message});
        }
        self->state.jobs[job.sample] = job;
        self->state.sink_is_set = true;
        send_jobs(self);
      },
      [=](const verdict_committed& done) {
        self->state.desk->committed(done.lease);
        if (const auto holder = self->state.holders.extract(done.lease); !holder.empty()) {
          self->state.hosts->acknowledge(holder.mapped().session, done.lease, true);
        }
      },
      [=](const epoch_began& began) { on_epoch(self, began); },
      [=](const drain&) {
        self->state.draining = true;
        send_jobs(self);
      },
      [=](const host_joined& host) { on_joined(self, host); },
      [=](const host_credit& credit) {
        const device_key device{credit.session, credit.device};
        if (auto taken = self->state.desk->credit(device, credit.granted); !taken) {
          base::log_warn("dispatch", "{}", taken.error().message);
        }
        send_jobs(self);
      },
      [=](const host_answer& answer) { on_answer(self, answer); },
      [=](const host_leaves& host) { on_leaves(self, host); },
      [=](const host_devices& host) { on_devices(self, host); },
      [=](const tick&) {
        const base::nanoseconds_t now = self->state.clock.now_ns();
        // One that was set earlier for later still comes; it may find nothing to do.
        if (self->state.timer && *self->state.timer <= now + base::operator""_ms(1))
          self->state.timer.reset();
        for (const auto& expired : self->state.desk->expire(now)) {
          cancel(self->state, expired.held.id);
          lost(self, expired.result, "the lease ran out");
        }
        send_jobs(self);
      },
  };
}

}  // namespace

base::expected<dispatch_ref> spawn_dispatch(caf::actor_system& system, dispatch_setup setup,
                                            std::shared_ptr<dispatch_sink> sink) {
  auto with = std::make_shared<opening>();
  with->setup = std::move(setup);
  with->sink = std::move(sink);
  auto bound = with->bound.get_future();
  dispatch_ref ref = system.spawn<caf::detached>(dispatch_actor, with);
  QUERN_CHECK(bound.get());
  return ref;
}

}  // namespace quern::actors
