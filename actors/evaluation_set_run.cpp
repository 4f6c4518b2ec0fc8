#include "actors/evaluation_set_run.hpp"

#include <atomic>
#include <deque>
#include <future>

#include "actors/actor_guard.hpp"
#include "actors/config/config_file.hpp"
#include "actors/config/device_class.hpp"
#include "actors/console.hpp"
#include "actors/decide/evaluation_set_line.hpp"
#include "actors/dispatch_actor.hpp"
#include "actors/entrance.hpp"
#include "actors/measured_as.hpp"
#include "actors/node.hpp"
#include "actors/processes.hpp"
#include "actors/replay/rollout.hpp"
#include "actors/supervisor.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/pause_signals.hpp"
#include "base/program.hpp"
#include "policy/weights/weight_channel.hpp"

namespace quern::actors {
namespace {

/// How far the closing comparison is: written by its actor, read by the console.
struct evaluation_set_position {
  std::atomic<evaluation_set_side> side = evaluation_set_side::first;
  std::atomic<std::size_t> answered = 0;
  base::steady_clock clock;
  base::nanoseconds_t begin = clock.now_ns();
};

/// What the actor of the closing comparison works with; it outlives the actor.
struct evaluation_set_setup {
  const run_config* config = nullptr;
  evaluation_set* questions = nullptr;
  evaluation_set_position* position = nullptr;
  evaluation_set_side side = evaluation_set_side::first;
  std::string model;
  std::string config_yaml;
  reception who;
  std::string weights_folder;
  std::string device_class;
  dispatch_ref dispatch;
  supervisor_ref supervisor;
};

struct evaluation_set_state {
  evaluation_set_state() = default;
  // Not an aggregate: see QUERN_STATE.
  ~evaluation_set_state() {}
  evaluation_set_setup setup;
  std::size_t scouts_left = 0;
  std::deque<generate_group> to_ask;
  /// Asked of the living generator and not answered yet.
  std::map<sample_id, generate_group> asked;
  std::map<sample_id, std::string> sources;
  generator_ref generator;
  entrance door;
  std::int64_t granted = 0;
  std::int64_t sent = 0;
};
QUERN_STATE(evaluation_set_state);

using evaluation_set_ptr = replay_ref::stateful_pointer<evaluation_set_state>;

void ask(evaluation_set_ptr self) {
  evaluation_set_state& state = self->state;
  while (state.scouts_left == 0 && state.sent < state.granted && !state.to_ask.empty()) {
    generate_group group = std::move(state.to_ask.front());
    state.to_ask.pop_front();
    self->send(state.generator, group);
    state.asked.emplace(group.group, std::move(group));
    ++state.sent;
  }
}

std::string position_text(const evaluation_set_position& at, std::size_t all) {
  return evaluation_set_line({.last = at.side == evaluation_set_side::last,
                              .answered = at.answered,
                              .all = all,
                              .elapsed = at.clock.now_ns() - at.begin});
}

void fix_questions(evaluation_set_ptr self) {
  evaluation_set_state& state = self->state;
  if (state.setup.side == evaluation_set_side::first) state.setup.questions->freeze();
  for (generate_group& group : state.setup.questions->questions()) {
    state.to_ask.push_back(std::move(group));
  }
}

/// A generator came: what its predecessor left unanswered is asked again, with the same random
/// numbers.
void meet(evaluation_set_ptr self, const generator_ref& generator) {
  evaluation_set_state& state = self->state;
  for (auto& [sample, group] : state.asked)
    state.to_ask.push_back(std::move(group));
  state.asked.clear();
  state.generator = generator;
  state.granted = state.sent = 0;
}

void fail_evaluation_set(evaluation_set_ptr self, const std::string& what) {
  self->send(self->state.setup.supervisor, fatal_problem{"evaluation_set", what});
}

void on_answer(evaluation_set_ptr self, const sample_verdict& verdict) {
  evaluation_set_state& state = self->state;
  if (verdict.lease != 0) self->send(state.setup.dispatch, verdict_committed{verdict.lease});
  if (!verdict.counts && !verdict.exhausted) return;
  const auto value = env::parse_verdict(verdict.json);
  if (!value) return fail_evaluation_set(self, value.error().message);
  if (verdict.sample < first_evaluation_set) {
    state.setup.questions->scored(verdict.sample, *value);
    if (--state.scouts_left == 0) {
      fix_questions(self);
      ask(self);
    }
    return;
  }
  const auto taken = state.setup.questions->answered(state.setup.side, verdict.sample, *value,
                                                     state.sources[verdict.sample]);
  if (!taken) return fail_evaluation_set(self, taken.error().message);
  const std::size_t answered = ++state.setup.position->answered;
  const std::size_t all = state.setup.questions->prompts();
  if (answered * 8 / all != (answered - 1) * 8 / all) {
    base::log_info("evaluation_set", "{}", position_text(*state.setup.position, all));
  }
  if (state.setup.questions->complete(state.setup.side)) {
    self->send(state.setup.supervisor, drained{static_cast<std::uint8_t>(ending::stop), true});
  }
}

void on_completion(evaluation_set_ptr self, const generated_sample& sample) {
  evaluation_set_state& state = self->state;
  // The first completion counts: another one is of a generator that had been given up.
  if (state.asked.erase(sample.sample) == 0) return;
  const auto task = state.setup.questions->task_of(sample.sample);
  if (!task) return fail_evaluation_set(self, task.error().message);
  auto read = read_completion({0, sample.sample, *task, sample.text, 0, 0, sample.sample},
                              {measured_as(*state.setup.config), state.setup.device_class});
  if (auto* candidate = std::get_if<evaluate_sample>(&read)) {
    state.sources[sample.sample] = candidate->source;
    self->send(state.setup.dispatch, std::move(*candidate));
  } else {
    on_answer(self, std::get<sample_verdict>(read));
  }
}

/// Somebody who connected, but was not let in.
bool stranger(evaluation_set_ptr self) {
  return !self->state.door.known(self);
}

replay_ref::behavior_type evaluation_set_actor(evaluation_set_ptr self,
                                               evaluation_set_setup setup) {
  end_on_exception(self, "evaluation_set",
                   [self](const std::string& what) { fail_evaluation_set(self, what); });
  evaluation_set_state& state = self->state;
  state.setup = std::move(setup);
  state.door = entrance(state.setup.who);
  self->set_down_handler([=](const caf::down_msg& down) {
    if (const auto start = self->state.door.forget(down.source))
      self->send(self->state.setup.supervisor, process_contact{*start, true});
  });
  if (state.setup.side == evaluation_set_side::first) {
    const auto scouts = state.setup.questions->scouts();
    state.scouts_left = scouts.size();
    for (const evaluate_sample& scout : scouts)
      self->send(state.setup.dispatch, scout);
  }
  if (state.scouts_left == 0) fix_questions(self);
  return {
      [=](const hello& from, const generator_ref& ref) -> caf::result<welcome> {
        if (auto no = self->state.door.refuse(from, "generator", ref.address()))
          return std::move(*no);
        self->send(self->state.setup.supervisor, process_contact{from.start, false});
        self->monitor(ref);
        meet(self, ref);
        welcome answer;
        answer.checkpoint = self->state.setup.model;
        answer.config_yaml = self->state.setup.config_yaml;
        answer.weights_folder = self->state.setup.weights_folder;
        return answer;
      },
      [=](const hello&, const learner_ref&) -> caf::result<welcome> {
        return caf::make_error(caf::sec::runtime_error, "the closing comparison has no learner");
      },
      [=](const generation_credit& credit) {
        if (stranger(self)) return;
        self->state.granted = credit.granted;
        ask(self);
      },
      [](const weights_installed&) {},
      [=](const generated_sample& sample) {
        if (!stranger(self)) on_completion(self, sample);
      },
      [=](const sample_verdict& verdict) {
        if (!stranger(self)) on_answer(self, verdict);
      },
      [](const jobs_withdrawn&) {},
      [](const learner_ready&) {},
      [](const step_done&) {},
      [](const weights_ready&) {},
      [](const checkpoint_saved&) {},
      [=](const drain& order) {
        if (stranger(self)) return;
        self->send(self->state.setup.supervisor, drained{order.ending_kind, false});
      },
      [=](const process_check& asked) {
        if (stranger(self)) return;
        self->send(self->state.setup.supervisor, process_check{asked.role, asked.start, true});
      },
      [=](const fatal_problem& problem) {
        if (!stranger(self)) fail_evaluation_set(self, problem.where + ": " + problem.message);
      },
      [](const tick&) {},
  };
}

/// Waits for the end; a signal abandons the comparison.
run_end wait_for_evaluation_set(std::future<run_end> end, const supervisor_ref& supervisor,
                                base::pause_signals& signals) {
  while (end.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (signals.arrived(100)) {
      caf::anon_send(supervisor, drain{static_cast<std::uint8_t>(ending::pause)});
    }
  }
  return end.get();
}

/// One side of the evaluation set; whether it is complete.
base::expected<bool> ask_side(const run_config& config, storage::run_directory& run,
                              const task_book& tasks, evaluation_set_setup setup,
                              base::pause_signals& signals) {
  QUERN_TRY(const std::string hosts_socket, run.socket("evaluation_set"));
  QUERN_TRY(const std::string console_socket, run.socket("console"));
  node self;
  caf::actor_system& system = self.system();
  const auto sink = std::make_shared<dispatch_sink>();
  QUERN_TRY(const run_hosts hosts, hosts_of_run(config));
  QUERN_TRY(const gateway_options opening, gateway_of(config, hosts, run.paths(), hosts_socket, 0));
  const auto board = std::make_shared<device_board>();
  const dispatch_setup dispatching{
      &config, &tasks, setup.device_class, 0, opening, setup.questions->most_jobs(), board};
  QUERN_TRY(setup.dispatch, spawn_dispatch(system, dispatching, sink));
  self.owns(setup.dispatch);
  run_entrance entrance = entrance_of(opening, sink->endpoints);
  QUERN_TRY(entrance.secret, make_run_secret());
  setup.who = {base::build_id(), config_hash(setup.config_yaml), entrance.secret};
  const auto replay_slot = std::make_shared<replay_ref>();
  const auto end = std::make_shared<std::promise<run_end>>();
  const auto run_roles = std::make_shared<std::vector<role>>();
  supervisor_setup supervising;
  supervising.roles = run_roles;
  supervising.replay = replay_slot;
  supervising.restarts = supervising.evaluators.restarts = restart_limits_of(config);
  supervising.hosts_join_at = config.env.bind;
  supervising.board = board;
  supervising.end = end;
  setup.supervisor = spawn_supervisor(system, supervising);
  const supervisor_ref supervisor = setup.supervisor;
  self.owns(supervisor);
  evaluation_set_position& position = *setup.position;
  position.side = setup.side;
  position.answered = 0;
  const std::size_t all = setup.questions->prompts();
  const replay_ref asking = system.spawn<caf::detached>(evaluation_set_actor, std::move(setup));
  self.owns(asking);
  *replay_slot = asking;
  sink->supervisor = supervisor;
  sink->replay = asking;
  QUERN_TRY(entrance.port, listen_for_processes(system, asking, hosts.control()));
  // One asks all the questions, whatever the run had.
  run_config with_one = config;
  with_one.actors.generators = 1;
  QUERN_TRY(*run_roles, plan_roles(with_one, hosts, run.paths(), entrance, {"generator"}));
  // A comparison that is not complete is made anew, so that stopping it is pausing it.
  const console_commands commands{[&]() -> base::json {
                                    return {{"progress", position_text(position, all)},
                                            {"verdicts", base::json::object()},
                                            {"hosts", board->snapshot()},
                                            {"aside", board->aside()}};
                                  },
                                  [&](ending how) {
                                    caf::anon_send(supervisor,
                                                   drain{static_cast<std::uint8_t>(ending::pause)});
                                    return how;
                                  }};
  QUERN_TRY(const auto listening, console::serve(console_socket, commands));
  caf::anon_send(supervisor, tick{});
  const run_end ended = wait_for_evaluation_set(end->get_future(), supervisor, signals);
  self.end_actors();
  if (!ended.problem.empty())
    return base::fail(base::errc::unavailable, "evaluation set: {}", ended.problem);
  return ended.finished;
}

}  // namespace

base::expected<std::optional<evaluation_set>> run_evaluation_set(const run_config& config,
                                                                 storage::run_directory& run,
                                                                 const task_book& tasks,
                                                                 const std::string& first,
                                                                 const std::string& last) {
  base::pause_signals signals;
  QUERN_TRY(const std::string device_class, device_class_of(config));
  QUERN_TRY(const prompter prompts, prompter::make(config, device_class));
  QUERN_TRY(evaluation_set questions, evaluation_set::make(config, tasks, prompts));
  if (questions.prompts() == 0) return std::optional<evaluation_set>(std::move(questions));
  QUERN_TRY(const auto weights_folder, policy::make_weights_folder(run.sockets()));
  QUERN_CHECK(run.own(weights_folder));
  evaluation_set_position position;
  bool complete = true;
  for (const evaluation_set_side side : {evaluation_set_side::first, evaluation_set_side::last}) {
    evaluation_set_setup setup;
    setup.config = &config;
    setup.questions = &questions;
    setup.position = &position;
    setup.side = side;
    setup.config_yaml = to_yaml(config);
    setup.weights_folder = weights_folder.string();
    setup.device_class = device_class;
    setup.model = side == evaluation_set_side::first ? first : last;
    QUERN_TRY(complete, ask_side(config, run, tasks, std::move(setup), signals));
    if (!complete) break;
  }
  std::error_code ignored;
  std::filesystem::remove_all(weights_folder, ignored);
  if (!complete) return std::optional<evaluation_set>();
  return std::optional<evaluation_set>(std::move(questions));
}

}  // namespace quern::actors
