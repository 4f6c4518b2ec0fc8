#include "actors/panel_run.hpp"

#include <deque>
#include <future>

#include "actors/config/config_file.hpp"
#include "actors/dispatch_actor.hpp"
#include "actors/node.hpp"
#include "actors/processes.hpp"
#include "actors/replay/rollout.hpp"
#include "actors/supervisor.hpp"
#include "base/log.hpp"
#include "base/program.hpp"
#include "env/judge/machine.hpp"
#include "policy/weights/weight_channel.hpp"

namespace quern::actors {
namespace {

/// What the panel's actor works with; it outlives the actor.
struct panel_setup {
  const run_config* config = nullptr;
  panel* questions = nullptr;
  panel_side side = panel_side::first;
  std::string model;
  std::string config_yaml;
  std::string weights_folder;
  std::string device_class;
  dispatch_ref dispatch;
  supervisor_ref supervisor;
};

struct panel_state {
  panel_state() = default;
  // Not an aggregate: see QUERN_STATE.
  ~panel_state() {}
  panel_setup setup;
  std::size_t scouts_left = 0;
  std::deque<generate_group> to_ask;
  std::map<sample_id, std::string> sources;
  generator_ref generator;
  std::int64_t granted = 0;
  std::int64_t sent = 0;
};
QUERN_STATE(panel_state);

using panel_ptr = replay_ref::stateful_pointer<panel_state>;

void ask(panel_ptr self) {
  panel_state& state = self->state;
  while (state.scouts_left == 0 && state.sent < state.granted && !state.to_ask.empty()) {
    self->send(state.generator, std::move(state.to_ask.front()));
    state.to_ask.pop_front();
    ++state.sent;
  }
}

void fix_questions(panel_ptr self) {
  panel_state& state = self->state;
  if (state.setup.side == panel_side::first) state.setup.questions->freeze();
  for (generate_group& group : state.setup.questions->questions()) {
    state.to_ask.push_back(std::move(group));
  }
}

void fail_panel(panel_ptr self, const std::string& what) {
  self->send(self->state.setup.supervisor, fatal_problem{"panel", what});
}

void on_answer(panel_ptr self, const sample_verdict& verdict) {
  panel_state& state = self->state;
  if (verdict.lease != 0) self->send(state.setup.dispatch, verdict_committed{verdict.lease});
  if (!verdict.counts && !verdict.exhausted) return;
  const auto value = env::parse_verdict(verdict.json);
  if (!value) return fail_panel(self, value.error().message);
  if (verdict.sample < first_panel) {
    state.setup.questions->scored(verdict.sample, *value);
    if (--state.scouts_left == 0) {
      fix_questions(self);
      ask(self);
    }
    return;
  }
  const auto taken = state.setup.questions->answered(state.setup.side, verdict.sample, *value,
                                                     state.sources[verdict.sample]);
  if (!taken) return fail_panel(self, taken.error().message);
  if (state.setup.questions->complete(state.setup.side)) {
    self->send(state.setup.supervisor, drained{static_cast<std::uint8_t>(ending::stop), true});
  }
}

void on_completion(panel_ptr self, const generated_sample& sample) {
  panel_state& state = self->state;
  const auto task = state.setup.questions->task_of(sample.sample);
  if (!task) return fail_panel(self, task.error().message);
  auto read = read_completion({0, sample.sample, *task, sample.text, 0, 0},
                              {state.setup.config->env.protocol, state.setup.device_class});
  if (auto* candidate = std::get_if<evaluate_sample>(&read)) {
    state.sources[sample.sample] = candidate->source;
    self->send(state.setup.dispatch, std::move(*candidate));
  } else {
    on_answer(self, std::get<sample_verdict>(read));
  }
}

replay_ref::behavior_type panel_actor(panel_ptr self, panel_setup setup) {
  panel_state& state = self->state;
  state.setup = std::move(setup);
  if (state.setup.side == panel_side::first) {
    const auto scouts = state.setup.questions->scouts();
    state.scouts_left = scouts.size();
    for (const evaluate_sample& scout : scouts)
      self->send(state.setup.dispatch, scout);
  }
  if (state.scouts_left == 0) fix_questions(self);
  return {
      [=](const hello&, const generator_ref& ref) -> caf::result<welcome> {
        self->state.generator = ref;
        self->state.granted = self->state.sent = 0;
        welcome answer;
        answer.checkpoint = self->state.setup.model;
        answer.config_yaml = self->state.setup.config_yaml;
        answer.weights_folder = self->state.setup.weights_folder;
        return answer;
      },
      [=](const hello&, const learner_ref&) -> caf::result<welcome> {
        return caf::make_error(caf::sec::runtime_error, "a panel has no learner");
      },
      [=](const generation_credit& credit) {
        self->state.granted = credit.granted;
        ask(self);
      },
      [](const weights_installed&) {},
      [=](const generated_sample& sample) { on_completion(self, sample); },
      [=](const sample_verdict& verdict) { on_answer(self, verdict); },
      [](const learner_ready&) {},
      [](const step_done&) {},
      [](const checkpoint_saved&) {},
      [](const drain&) {},
      [=](const fatal_problem& problem) { fail_panel(self, problem.where + ": " + problem.what); },
      [](const tick&) {},
  };
}

base::status ask_side(const run_config& config, storage::run_directory& run, const task_book& tasks,
                      panel_setup setup) {
  QUERN_TRY(const std::string hosts_socket, run.socket("panel"));
  node_config node;
  caf::actor_system system(node);
  const auto sink = std::make_shared<dispatch_sink>();
  dispatch_setup dispatching{&config, &tasks, setup.device_class, 0, {}};
  dispatching.gateway.endpoints = {"ipc://" + hosts_socket};
  dispatching.gateway.lease_ms = static_cast<std::int64_t>(config.actors.lease_s * 1000);
  QUERN_TRY(setup.dispatch, spawn_dispatch(system, dispatching, sink));
  const auto replay_slot = std::make_shared<replay_ref>();
  const auto end = std::make_shared<std::promise<run_end>>();
  const auto plans = std::make_shared<std::vector<process_plan>>();
  setup.supervisor = spawn_supervisor(system, {plans, replay_slot, {}, end});
  const dispatch_ref dispatch = setup.dispatch;
  const supervisor_ref supervisor = setup.supervisor;
  const replay_ref asking = system.spawn<caf::detached>(panel_actor, std::move(setup));
  *replay_slot = asking;
  sink->replay = asking;
  const auto port = system.middleman().publish(asking, 0, "127.0.0.1");
  if (!port) return base::fail(base::errc::io, "cannot listen on 127.0.0.1");
  QUERN_TRY(*plans,
            plan_processes(config, run.paths(), *port, "ipc://" + hosts_socket, {"generator"}));
  caf::anon_send(supervisor, tick{});
  const run_end ended = end->get_future().get();
  caf::anon_send_exit(asking, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(dispatch, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
  system.await_all_actors_done();
  if (!ended.problem.empty())
    return base::fail(base::errc::unavailable, "panel: {}", ended.problem);
  return {};
}

}  // namespace

base::expected<panel> run_panel(const run_config& config, storage::run_directory& run,
                                const task_book& tasks, const std::string& first,
                                const std::string& last) {
  const std::string device_class = env::cpu_device_class();
  QUERN_TRY(const prompter prompts, prompter::make(config, device_class));
  QUERN_TRY(panel questions, panel::make(config, tasks, prompts));
  QUERN_TRY(const auto weights_folder, policy::make_weights_folder(run.sockets()));
  panel_setup setup;
  setup.config = &config;
  setup.questions = &questions;
  setup.config_yaml = to_yaml(config);
  setup.weights_folder = weights_folder.string();
  setup.device_class = device_class;
  setup.model = first;
  QUERN_CHECK(ask_side(config, run, tasks, setup));
  setup.side = panel_side::last;
  setup.model = last;
  QUERN_CHECK(ask_side(config, run, tasks, setup));
  std::error_code ignored;
  std::filesystem::remove_all(weights_folder, ignored);
  return questions;
}

}  // namespace quern::actors
