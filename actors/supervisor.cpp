#include "actors/supervisor.hpp"

#include <algorithm>
#include <future>
#include <map>

#include <signal.h>

#include "actors/actor_guard.hpp"
#include "actors/child_processes.hpp"
#include "actors/decide/shortage_watch.hpp"
#include "actors/defaults.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace quern::actors {
namespace {

constexpr std::int32_t absence_tick = 1, joint_tick = 2;  ///< others start the processes
constexpr base::nanoseconds_t timer_tolerance = 1'000'000;
/// Between two looks at processes that work together.
constexpr auto joint_look = std::chrono::milliseconds(50);
/// The text of a process_ended that asks for the next start.
constexpr const char* restart = "restart";

/// What is known of whether a process answers.
enum class answering { awaited, yes, no };

/// Of a process that was started, beside what child_processes knows.
struct watched {
  process_plan plan;
  role_restarts restarts = role_restarts::alone;
  answering answers = answering::awaited;
  std::optional<base::nanoseconds_t> killed_at = {};  ///< it was asked to end, on another host
};

/// The role whose processes work together now.
struct joint_work {
  std::size_t place = 0;  ///< in the setup's roles
  joint_policy policy;
  std::int64_t starts = 0;
};

struct supervisor_state {
  supervisor_state() = default;
  // Not an aggregate: see QUERN_STATE. What still runs ends with `children`.
  ~supervisor_state() {}
  supervisor_state(const supervisor_state&) = delete;
  supervisor_state& operator=(const supervisor_state&) = delete;

  supervisor_setup setup;
  std::optional<child_processes> children;
  std::map<std::string, watched> known;  ///< by the names of processes
  std::optional<joint_work> joint;
  std::optional<drain> asked_to_end;
  std::optional<restart_policy> restarts;
  std::optional<plural_policy> evaluators;
  std::map<std::string, std::string> ended_how;  ///< of evaluators set aside
  std::optional<shortage_watch> shortage;
  evaluators_present evaluators_now;
  std::string in_quarantine;  ///< devices with their reasons, since a host last took work
  std::optional<base::nanoseconds_t> alarm;  ///< when the next absence_tick comes
  base::steady_clock clock;
  bool ended = false;
};
QUERN_STATE(supervisor_state);

using supervisor_ptr = supervisor_ref::stateful_pointer<supervisor_state>;

void finish(supervisor_ptr self, run_end how) {
  if (self->state.ended) return;
  self->state.ended = true;
  self->state.children->end_all();
  self->state.setup.end->set_value(std::move(how));
}

void start(supervisor_ptr self, const process_plan& plan, role_restarts restarts) {
  if (self->state.ended) return;
  const auto start = self->state.children->start(plan);
  if (!start) return finish(self, {ending::pause, false, start.error().message});
  self->state.known[plan.name] = {plan, restarts};
  if (plan.says_hello != introduction::to_nobody)
    self->delayed_send(self, defaults::start_timeout, process_check{plan.name, *start});
}

void back_from_aside(supervisor_ptr self, const std::string& role) {
  supervisor_state& state = self->state;
  if (!state.evaluators->joined(role)) return;
  base::log_info("supervisor", "{} works again", role);
  state.ended_how.erase(role);
  if (state.setup.board) state.setup.board->works_again(role);
}

void on_contact(supervisor_ptr self, const process_contact& news) {
  const child_process* child = self->state.children->find(news.start);
  if (child == nullptr) return;
  const bool evaluator = child->plan.says_hello == introduction::to_gateway;
  if (news.evaluator && !evaluator) return;
  const std::string& name = child->plan.name;
  self->state.known[name].answers = news.lost ? answering::no : answering::yes;
  if (!news.lost && evaluator) back_from_aside(self, name);
  // It may be on its way out, or come back with a new session.
  if (news.lost) self->delayed_send(self, defaults::exit_grace, process_check{name, news.start});
}

/// Kills a process that lives and does not answer; its end is news like any other. A launch command
/// is asked first: one that is killed at once may leave alive, beside its successor, what it has
/// started.
void kill_frozen(supervisor_ptr self, const process_check& doubt) {
  child_process* child = self->state.children->find(doubt.start);
  if (child == nullptr) return;
  watched& about = self->state.known[doubt.role];
  const auto& orchestrator = self->state.setup.orchestrator;
  // Evaluators say hello to a gateway, which never waits for run.db.
  const bool by_control = about.plan.says_hello == introduction::to_control;
  if (about.answers == answering::awaited && !about.killed_at && !doubt.heard && by_control &&
      orchestrator && *orchestrator)
    return self->send(*orchestrator, doubt);
  const base::nanoseconds_t now = self->state.clock.now_ns();
  if (about.killed_at ? now < *about.killed_at : about.answers == answering::yes) return;
  const bool asked = about.killed_at || about.plan.host.empty();
  base::log_warn("supervisor", "{} (process {}) lives and does not answer: {}", doubt.role,
                 child->process.pid(), asked ? "killed" : "its launch command is to end");
  if (asked) return child->process.send_signal(SIGKILL);
  about.killed_at = now + std::chrono::nanoseconds(defaults::exit_grace).count();
  child->process.close_input();
  child->process.send_signal(SIGTERM);
  self->delayed_send(self, defaults::exit_grace, doubt);
}

/// Comes back when the evaluators may have been away for too long, or it is to be said again.
void watch_absence(supervisor_ptr self) {
  supervisor_state& state = self->state;
  auto next = state.evaluators->gives_up_at();
  if (const auto due = state.shortage->due()) next = std::min(next.value_or(*due), *due);
  if (!next || state.ended || (state.alarm && *state.alarm <= *next)) return;
  state.alarm = next;
  const auto left = std::max<base::nanoseconds_t>(*next - state.clock.now_ns(), 0);
  self->delayed_send(self, std::chrono::nanoseconds(left + timer_tolerance), tick{absence_tick});
}

void tell_shortage(supervisor_ptr self) {
  supervisor_state& state = self->state;
  const base::nanoseconds_t now = state.clock.now_ns();
  const auto end = state.evaluators->gives_up_at();
  const std::string& where = state.setup.hosts_join_at;
  const std::string why = !state.in_quarantine.empty() ? state.in_quarantine
                          : where.empty()              ? "no evaluator is here"
                                          : "no evaluator is here, hosts may join at " + where;
  const std::string rest = fmt::format(
      "{}; {}{}", why,
      state.evaluators->is_needed() ? "candidates wait" : "no candidate needs one now",
      end ? ", and the run ends in " + base::human_duration(*end - now) + " if it stays so" : "");
  switch (state.shortage->look(static_cast<std::size_t>(state.evaluators_now.count),
                               !state.evaluators_now.shortage.empty(),
                               state.evaluators->is_needed(), now)) {
    case shortage_watch::news::none:
      return;
    case shortage_watch::news::begun:
      return base::log_error("supervisor", "no device to evaluate on: {}", rest);
    case shortage_watch::news::goes_on:
      return base::log_error("supervisor", "no device to evaluate on for {}: {}",
                             base::human_duration(state.shortage->lasted(now)), rest);
    case shortage_watch::news::over:
      base::log_info("supervisor", "there are devices to evaluate on again, after {}",
                     base::human_duration(state.shortage->lasted(now)));
  }
}

void on_present(supervisor_ptr self, const evaluators_present& now) {
  supervisor_state& state = self->state;
  if (now.count > 0 || !now.shortage.empty()) state.in_quarantine = now.shortage;
  state.evaluators_now = now;
  state.evaluators->present(static_cast<std::size_t>(now.count), !now.shortage.empty(),
                            state.clock.now_ns());
  if (!state.ended) tell_shortage(self);
  watch_absence(self);
}

void look_at_absence(supervisor_ptr self) {
  supervisor_state& state = self->state;
  const base::nanoseconds_t now = state.clock.now_ns();
  // One that was set earlier for later still comes; it may find nothing to do.
  if (state.alarm && *state.alarm <= now + timer_tolerance) state.alarm.reset();
  if (state.ended) return;
  if (!state.evaluators->absent_for_long(now)) {
    tell_shortage(self);
    return watch_absence(self);
  }
  std::string each;
  for (const auto& [role, how] : state.ended_how)
    each += "; " + role + " " + how;
  if (!state.in_quarantine.empty()) each += "; " + state.in_quarantine;
  finish(self, {ending::pause, false,
                fmt::format("no evaluator took work for {}{}; mend it and quern resume",
                            base::human_duration(state.setup.evaluators.absence_ns), each)});
}

/// An evaluator ended: the others go on, and this one is tried again.
void on_evaluator_end(supervisor_ptr self, const process_plan& plan, const std::string& how) {
  supervisor_state& state = self->state;
  const auto decision = state.evaluators->died(plan.name, state.clock.now_ns());
  const std::string story = fmt::format(
      "ended {} times within {} (last: {}); its log is {}", decision.deaths,
      base::human_duration(state.setup.evaluators.restarts.window_ns), how, plan.spec.log.string());
  if (decision.end) return finish(self, {ending::pause, false, plan.name + " " + story});
  if (decision.aside) {
    const std::string reason =
        fmt::format("{}; tried again in {}", story, base::human_duration(decision.delay_ns));
    base::log_error("supervisor", "{} is set aside: it {}", plan.name, reason);
    state.ended_how[plan.name] = story;
    if (state.setup.board) state.setup.board->set_aside(plan.name, {reason, base::unix_time_ns()});
  } else {
    base::log_warn("supervisor", "{} ended ({}); starting it again", plan.name, how);
  }
  self->delayed_send(self, std::chrono::nanoseconds(decision.delay_ns),
                     process_ended{plan.name, "restart", 0});
  watch_absence(self);
}

/// A process ended without which the run cannot go on.
void on_lone_end(supervisor_ptr self, const process_plan& plan, const std::string& how) {
  const auto decision = self->state.restarts->died(plan.name, self->state.clock.now_ns());
  if (!decision.restart) {
    return finish(self,
                  {ending::pause, false,
                   fmt::format("{} ended {} times within the window (last: {}); its log is {}",
                               plan.name, decision.deaths, how, plan.spec.log.string())});
  }
  base::log_warn("supervisor", "{} ended ({}); starting it again", plan.name, how);
  self->delayed_send(self, std::chrono::nanoseconds(decision.delay_ns),
                     process_ended{plan.name, restart, 0});
}

void settle_joint(supervisor_ptr self);

/// Starts all processes of the role that works now, unless the run is to end.
void start_joint(supervisor_ptr self) {
  supervisor_state& state = self->state;
  if (state.ended) return;
  if (state.asked_to_end) return finish(self, {ending::pause, false, ""});
  joint_work& work = *state.joint;
  const role& now = (*state.setup.roles)[work.place];
  const auto plans = now.plan({work.starts++, work.policy.in_vain()});
  if (!plans) return finish(self, {ending::pause, false, plans.error().message});
  std::vector<std::string> names;
  for (const process_plan& plan : *plans) {
    start(self, plan, role_restarts::together);
    names.push_back(plan.name);
  }
  work.policy.started(names, state.clock.now_ns());
  // Nothing is left to be done.
  if (names.empty()) return settle_joint(self);
  self->send(self, tick{joint_tick});
}

/// The first role at `place` or behind whose processes work together; there is none: false.
bool begin_joint(supervisor_ptr self, std::size_t place) {
  supervisor_state& state = self->state;
  const auto& roles = *state.setup.roles;
  while (place < roles.size() && roles[place].restarts != role_restarts::together)
    ++place;
  if (place == roles.size()) return false;
  const role& next = roles[place];
  state.joint.emplace(
      joint_work{place, joint_policy(next.name, next.kept.name, next.limits, next.kept.reached())});
  start_joint(self);
  return true;
}

void settle_joint(supervisor_ptr self) {
  supervisor_state& state = self->state;
  joint_work& work = *state.joint;
  const role& now = (*state.setup.roles)[work.place];
  const auto outcome = work.policy.settle(now.kept.reached, state.clock.now_ns());
  switch (outcome.how) {
    case joint_policy::outcome::kind::finished:
      if (!begin_joint(self, work.place + 1)) finish(self, {ending::stop, true, ""});
      return;
    case joint_policy::outcome::kind::paused:
      return finish(self, {ending::pause, false, ""});
    case joint_policy::outcome::kind::failed:
      return finish(self, {ending::pause, false, outcome.message});
    case joint_policy::outcome::kind::again:
      base::log_warn(now.name, "{}", outcome.message);
      self->delayed_send(self, std::chrono::nanoseconds(outcome.delay_ns),
                         process_ended{now.name, restart, 0});
  }
}

/// Carries out what is due among processes that work together, as long as one of them lives.
void look_at_joint(supervisor_ptr self) {
  supervisor_state& state = self->state;
  if (state.ended || !state.joint || state.joint->policy.all_ended()) return;
  joint_policy& policy = state.joint->policy;
  const base::nanoseconds_t now = state.clock.now_ns();
  for (const std::string& name : policy.to_be_heard(now))
    if (const child_process* child = state.children->find(name))
      policy.heard(name, used_time_of(child->process.pid()), now);
  const joint_policy::orders due = policy.look(now);
  if (!due.warning.empty()) base::log_warn("control", "{}", due.warning);
  for (auto& [name, about] : state.known) {
    child_process* child = state.children->find(name);
    if (!due.pause || about.restarts != role_restarts::together || child == nullptr) continue;
    child->process.send_signal(SIGTERM);
    // One that is stopped would take note of it when it is too late.
    child->process.send_signal(SIGCONT);
  }
  for (const std::string& name : due.kill)
    if (child_process* child = state.children->find(name)) child->process.send_signal(SIGKILL);
  self->delayed_send(self, joint_look, tick{joint_tick});
}

void on_joint_end(supervisor_ptr self, const process_plan& plan, const base::exit_state& how) {
  supervisor_state& state = self->state;
  joint_policy& policy = state.joint->policy;
  policy.ended({plan.name, how, plan.spec.log.string(), last_words(plan.spec.log)},
               state.clock.now_ns());
  if (policy.all_ended()) settle_joint(self);
}

void on_end(supervisor_ptr self, const process_ended& news) {
  supervisor_state& state = self->state;
  if (state.ended) return;
  const auto how = state.children->take_end(news.role, news.start);
  if (!how) return;
  const watched about = state.known.at(news.role);
  switch (about.restarts) {
    case role_restarts::alone:
      return on_lone_end(self, about.plan, base::describe(*how));
    case role_restarts::aside:
      return on_evaluator_end(self, about.plan, base::describe(*how));
    case role_restarts::together:
      return on_joint_end(self, about.plan, *how);
  }
}

void start_again(supervisor_ptr self, const std::string& name) {
  supervisor_state& state = self->state;
  if (state.joint && (*state.setup.roles)[state.joint->place].name == name)
    return start_joint(self);
  const watched about = state.known.at(name);
  start(self, about.plan, about.restarts);
}

void start_run(supervisor_ptr self) {
  supervisor_state& state = self->state;
  std::size_t set_aside = 0;
  for (const role& one : *state.setup.roles) {
    if (state.ended || one.restarts == role_restarts::together) continue;
    const auto plans = one.plan({});
    if (!plans) return finish(self, {ending::pause, false, plans.error().message});
    if (one.restarts == role_restarts::aside) set_aside += plans->size();
    state.evaluators->expect(set_aside);
    for (const process_plan& plan : *plans)
      start(self, plan, one.restarts);
  }
  if (begin_joint(self, 0)) return;
  tell_shortage(self);
  watch_absence(self);
}

void on_drain(supervisor_ptr self, const drain& order) {
  supervisor_state& state = self->state;
  if (state.ended) return;
  state.evaluators->draining();
  state.asked_to_end = order;
  if (state.joint) {
    state.joint->policy.asked_to_pause(order.at_once ? pause_request::at_once
                                                     : pause_request::in_order);
    // Between two starts nobody is there to be asked.
    if (state.joint->policy.all_ended()) finish(self, {ending::pause, false, ""});
  }
  if (state.setup.orchestrator && *state.setup.orchestrator)
    self->send(*state.setup.orchestrator, order);
}

supervisor_ref::behavior_type supervisor_actor(supervisor_ptr self,
                                               std::shared_ptr<supervisor_setup> setup) {
  end_on_exception(self, "supervisor", [end = setup->end](const std::string& what) {
    try {
      end->set_value({ending::pause, false, "supervisor: " + what});
    } catch (const std::future_error&) {
      // The run has ended otherwise.
    }
  });
  self->state.setup = *setup;
  self->state.children.emplace(
      [me = caf::actor_cast<supervisor_ref>(self)](const std::string& name, std::int32_t start) {
        caf::anon_send(me, process_ended{name, "", start});
      });
  self->state.restarts.emplace(setup->restarts);
  self->state.evaluators.emplace(setup->evaluators);
  self->state.shortage.emplace(setup->evaluators.unsaid_ns);
  return {
      [=](const process_ended& news) {
        if (news.exit_text != restart) return on_end(self, news);
        start_again(self, news.role);
      },
      [=](const process_contact& news) { on_contact(self, news); },
      [=](const process_check& doubt) { kill_frozen(self, doubt); },
      [=](const evaluators_present& now) { on_present(self, now); },
      [=](const evaluators_needed& now) {
        self->state.evaluators->needed(now.needed, self->state.clock.now_ns());
        if (!self->state.ended) tell_shortage(self);
        watch_absence(self);
      },
      [=](const drain& order) { on_drain(self, order); },
      [=](const drained& how) {
        finish(self, {static_cast<ending>(how.ending_kind), how.finished, ""});
      },
      [=](const fatal_problem& problem) {
        finish(self, {ending::pause, false, problem.where + ": " + problem.message});
      },
      [=](const tick& due) {
        if (due.purpose == absence_tick) return look_at_absence(self);
        if (due.purpose == joint_tick) return look_at_joint(self);
        start_run(self);
      },
  };
}

}  // namespace

supervisor_ref spawn_supervisor(caf::actor_system& system, supervisor_setup setup) {
  return system.spawn<caf::detached>(supervisor_actor,
                                     std::make_shared<supervisor_setup>(std::move(setup)));
}

}  // namespace quern::actors
