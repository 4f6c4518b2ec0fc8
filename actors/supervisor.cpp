#include "actors/supervisor.hpp"

#include <map>
#include <thread>

#include <poll.h>
#include <signal.h>

#include "actors/defaults.hpp"
#include "base/log.hpp"

namespace quern::actors {
namespace {

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
  running entry{plan, std::move(*child), start, {}};
  entry.watcher = std::thread([fd, start, me, role = plan.role] {
    pollfd watched{fd, POLLIN, 0};
    while (::poll(&watched, 1, -1) < 0) {
    }
    caf::anon_send(me, process_ended{role, "", start});
  });
  self->state.children.emplace(plan.role, std::move(entry));
  self->delayed_send(self, defaults::start_timeout, process_check{plan.role, start});
}

void on_contact(supervisor_ptr self, const process_contact& news) {
  for (auto& [role, child] : self->state.children) {
    if (child.start != news.start || (news.evaluator && !child.plan.evaluator)) continue;
    child.answers = news.lost ? answering::no : answering::yes;
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

void on_end(supervisor_ptr self, const process_ended& news) {
  supervisor_state& state = self->state;
  if (state.ended) return;
  const auto child = state.children.find(news.role);
  if (child == state.children.end() || child->second.start != news.start) return;
  const std::string how = base::describe(child->second.process.poll().value_or(base::exit_state{}));
  const process_plan plan = child->second.plan;
  child->second.watcher.join();
  state.children.erase(child);
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
  self->state.setup = *setup;
  self->state.restarts.emplace(setup->restarts);
  return {
      [=](const process_ended& news) {
        if (news.how != "restart") return on_end(self, news);
        for (const process_plan& plan : *self->state.setup.processes) {
          if (plan.role == news.role) start(self, plan);
        }
      },
      [=](const process_contact& news) { on_contact(self, news); },
      [=](const process_check& doubt) { kill_frozen(self, doubt); },
      [=](const drain& order) {
        if (!self->state.ended) self->send(*self->state.setup.replay, order);
      },
      [=](const drained& how) {
        finish(self, {static_cast<ending>(how.how), how.finished, ""});
      },
      [=](const fatal_problem& problem) {
        finish(self, {ending::pause, false, problem.where + ": " + problem.what});
      },
      [=](const tick&) {
        for (const process_plan& plan : *self->state.setup.processes)
          start(self, plan);
      },
  };
}

}  // namespace

supervisor_ref spawn_supervisor(caf::actor_system& system, supervisor_setup setup) {
  return system.spawn<caf::detached>(supervisor_actor,
                                     std::make_shared<supervisor_setup>(std::move(setup)));
}

}  // namespace quern::actors
