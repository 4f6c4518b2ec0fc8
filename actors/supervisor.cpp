#include "actors/supervisor.hpp"

#include <algorithm>
#include <future>
#include <map>
#include <thread>

#include <poll.h>
#include <signal.h>

#include "actors/actor_guard.hpp"
#include "actors/decide/shortage_watch.hpp"
#include "actors/defaults.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/thread.hpp"

namespace quern::actors {
namespace {

constexpr std::int32_t absence_tick = 1;  ///< others start the processes
constexpr base::nanoseconds_t timer_tolerance = 1'000'000;

/// What is known of whether a process answers.
enum class answering { awaited, yes, no };

struct running {
  process_plan plan;
  base::subprocess process;  ///< or the launch command of one on another host
  std::int32_t start = 0;
  std::thread watcher;
  answering answers = answering::awaited;
  std::optional<base::nanoseconds_t> killed_at = {};  ///< it was asked to end, on another host
};

struct supervisor_state {
  supervisor_state() = default;
  // Not an aggregate: see QUERN_STATE. Kills what still runs and joins the watchers.
  ~supervisor_state() { end_all(); }
  supervisor_state(const supervisor_state&) = delete;
  supervisor_state& operator=(const supervisor_state&) = delete;

  void end_all() {
    // A launch command ends when the process has that it stands for.
    for (auto& [role, child] : children)
      child.plan.host.empty() ? child.process.send_signal(SIGTERM) : child.process.close_input();
    const base::nanoseconds_t deadline =
        clock.now_ns() + std::chrono::nanoseconds(defaults::exit_grace).count();
    for (auto& [role, child] : children) {
      child.process.wait(std::max<base::nanoseconds_t>(deadline - clock.now_ns(), 0));
      child.process.send_signal(SIGKILL);
      child.process.wait(base::operator""_s(5));
      if (child.watcher.joinable()) child.watcher.join();
    }
    children.clear();
  }

  supervisor_setup setup;
  std::map<std::string, running> children;
  std::int32_t starts = 0;
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
  self->state.end_all();
  self->state.setup.end->set_value(std::move(how));
}

void start(supervisor_ptr self, const process_plan& plan) {
  if (self->state.ended) return;
  const std::int32_t start = ++self->state.starts;
  const auto spec = started_as(plan, start);
  if (!spec) return finish(self, {ending::pause, false, spec.error().message});
  auto child = base::subprocess::start(*spec);
  if (!child) return finish(self, {ending::pause, false, child.error().message});
  const int fd = child->pid_fd();
  const auto me = caf::actor_cast<supervisor_ref>(self);
  auto watcher = base::start_thread("watching " + plan.role, [fd, start, me, role = plan.role] {
    pollfd watched{fd, POLLIN, 0};
    while (::poll(&watched, 1, -1) < 0) {
    }
    caf::anon_send(me, process_ended{role, "", start});
  });
  if (!watcher) return finish(self, {ending::pause, false, watcher.error().message});
  self->state.children.emplace(plan.role,
                               running{plan, std::move(*child), start, std::move(*watcher)});
  self->delayed_send(self, defaults::start_timeout, process_check{plan.role, start});
}

void back_from_aside(supervisor_ptr self, const std::string& role) {
  supervisor_state& state = self->state;
  if (!state.evaluators->joined(role)) return;
  base::log_info("supervisor", "{} works again", role);
  state.ended_how.erase(role);
  if (state.setup.board) state.setup.board->works_again(role);
}

void on_contact(supervisor_ptr self, const process_contact& news) {
  for (auto& [role, child] : self->state.children) {
    if (child.start != news.start || (news.evaluator && !child.plan.evaluator)) continue;
    child.answers = news.lost ? answering::no : answering::yes;
    if (!news.lost && child.plan.evaluator) back_from_aside(self, role);
    if (!news.lost) return;
    // It may be on its way out, or come back with a new session.
    return self->delayed_send(self, defaults::exit_grace, process_check{role, news.start});
  }
}

/// Kills a process that lives and does not answer; its end is news like any other. A launch command
/// is asked first: one that is killed at once may leave alive, beside its successor, what it has
/// started.
void kill_frozen(supervisor_ptr self, const process_check& doubt) {
  const auto found = self->state.children.find(doubt.role);
  if (found == self->state.children.end() || found->second.start != doubt.start) return;
  running& child = found->second;
  // Evaluators say hello to a gateway, which never waits for run.db.
  if (child.answers == answering::awaited && !child.killed_at && !doubt.heard &&
      !child.plan.evaluator && *self->state.setup.replay)
    return self->send(*self->state.setup.replay, doubt);
  const base::nanoseconds_t now = self->state.clock.now_ns();
  if (child.killed_at ? now < *child.killed_at : child.answers == answering::yes) return;
  const bool asked = child.killed_at || child.plan.host.empty();
  base::log_warn("supervisor", "{} (process {}) lives and does not answer: {}", doubt.role,
                 child.process.pid(), asked ? "killed" : "its launch command is to end");
  if (asked) return child.process.send_signal(SIGKILL);
  child.killed_at = now + std::chrono::nanoseconds(defaults::exit_grace).count();
  child.process.close_input();
  child.process.send_signal(SIGTERM);
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
  const auto decision = state.evaluators->died(plan.role, state.clock.now_ns());
  const std::string story = fmt::format(
      "ended {} times within {} (last: {}); its log is {}", decision.deaths,
      base::human_duration(state.setup.evaluators.restarts.window_ns), how, plan.spec.log.string());
  if (decision.end) return finish(self, {ending::pause, false, plan.role + " " + story});
  if (decision.aside) {
    const std::string reason =
        fmt::format("{}; tried again in {}", story, base::human_duration(decision.delay_ns));
    base::log_error("supervisor", "{} is set aside: it {}", plan.role, reason);
    state.ended_how[plan.role] = story;
    if (state.setup.board) state.setup.board->set_aside(plan.role, {reason, base::unix_time_ns()});
  } else {
    base::log_warn("supervisor", "{} ended ({}); starting it again", plan.role, how);
  }
  self->delayed_send(self, std::chrono::nanoseconds(decision.delay_ns),
                     process_ended{plan.role, "restart", 0});
  watch_absence(self);
}

void on_end(supervisor_ptr self, const process_ended& news) {
  supervisor_state& state = self->state;
  if (state.ended) return;
  const auto child = state.children.find(news.role);
  if (child == state.children.end() || child->second.start != news.start) return;
  const std::string how = base::describe(child->second.process.poll().value_or(base::exit_state{}));
  const process_plan plan = child->second.plan;
  child->second.watcher.join();
  state.children.erase(child);
  if (plan.evaluator) return on_evaluator_end(self, plan, how);
  const auto decision = state.restarts->died(plan.role, state.clock.now_ns());
  if (!decision.restart) {
    return finish(self,
                  {ending::pause, false,
                   fmt::format("{} ended {} times within the window (last: {}); its log is {}",
                               plan.role, decision.deaths, how, plan.spec.log.string())});
  }
  base::log_warn("supervisor", "{} ended ({}); starting it again", plan.role, how);
  const auto delay = std::chrono::nanoseconds(decision.delay_ns);
  self->delayed_send(self, delay, process_ended{plan.role, "restart", 0});
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
  self->state.restarts.emplace(setup->restarts);
  self->state.evaluators.emplace(setup->evaluators);
  self->state.shortage.emplace(setup->evaluators.unsaid_ns);
  return {
      [=](const process_ended& news) {
        if (news.exit_text != "restart") return on_end(self, news);
        for (const process_plan& plan : *self->state.setup.processes) {
          if (plan.role == news.role) start(self, plan);
        }
      },
      [=](const process_contact& news) { on_contact(self, news); },
      [=](const process_check& doubt) { kill_frozen(self, doubt); },
      [=](const evaluators_present& now) { on_present(self, now); },
      [=](const evaluators_needed& now) {
        self->state.evaluators->needed(now.needed, self->state.clock.now_ns());
        if (!self->state.ended) tell_shortage(self);
        watch_absence(self);
      },
      [=](const drain& order) {
        self->state.evaluators->draining();
        if (!self->state.ended) self->send(*self->state.setup.replay, order);
      },
      [=](const drained& how) {
        finish(self, {static_cast<ending>(how.ending_kind), how.finished, ""});
      },
      [=](const fatal_problem& problem) {
        finish(self, {ending::pause, false, problem.where + ": " + problem.message});
      },
      [=](const tick& due) {
        if (due.purpose == absence_tick) return look_at_absence(self);
        const auto& plans = *self->state.setup.processes;
        self->state.evaluators->expect(static_cast<std::size_t>(std::count_if(
            plans.begin(), plans.end(), [](const process_plan& plan) { return plan.evaluator; })));
        for (const process_plan& plan : plans)
          start(self, plan);
        tell_shortage(self);
        watch_absence(self);
      },
  };
}

}  // namespace

supervisor_ref spawn_supervisor(caf::actor_system& system, supervisor_setup setup) {
  return system.spawn<caf::detached>(supervisor_actor,
                                     std::make_shared<supervisor_setup>(std::move(setup)));
}

}  // namespace quern::actors
