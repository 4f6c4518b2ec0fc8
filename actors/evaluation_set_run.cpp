#include "actors/evaluation_set_run.hpp"

#include <future>

#include "actors/config/config_file.hpp"
#include "actors/config/device_class.hpp"
#include "actors/console.hpp"
#include "actors/decide/evaluation_set_line.hpp"
#include "actors/dispatch_actor.hpp"
#include "actors/measured_as.hpp"
#include "actors/node.hpp"
#include "actors/orchestrator/evaluation_set_head.hpp"
#include "actors/orchestrator_actor.hpp"
#include "actors/processes.hpp"
#include "actors/supervisor.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/pause_signals.hpp"
#include "base/program.hpp"
#include "policy/weights/weight_channel.hpp"

namespace quern::actors {
namespace {

/// Eight lines of all are enough.
bool is_told(std::size_t done, std::size_t all) {
  return done > 0 && done * 8 / all != (done - 1) * 8 / all;
}

/// Waits for the end; a signal abandons the evaluation set.
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
                              const task_book& tasks, evaluation_set_side_setup setup,
                              evaluation_set& questions, evaluation_set_position& position,
                              base::pause_signals& signals) {
  QUERN_TRY(const std::string hosts_socket, run.socket("evaluation_set"));
  QUERN_TRY(const std::string console_socket, run.socket("console"));
  const base::steady_clock clock;
  role_board roles(clock);
  node self;
  caf::actor_system& system = self.system();
  const auto sink = std::make_shared<dispatch_sink>();
  QUERN_TRY(const run_hosts hosts, hosts_of_run(config));
  QUERN_TRY(const gateway_options opening, gateway_of(config, hosts, run.paths(), hosts_socket, 0));
  const auto board = std::make_shared<device_board>();
  const dispatch_setup dispatching{
      &config, &tasks, setup.rollout.device_class, 0, opening, questions.most_jobs(), board};
  QUERN_TRY(const dispatch_ref dispatch, spawn_dispatch(system, dispatching, sink));
  self.owns(dispatch);
  run_admission admission = admission_of(opening, sink->endpoints);
  QUERN_TRY(admission.secret, make_run_secret());
  const auto orchestrator_slot = std::make_shared<orchestrator_ref>();
  const auto end = std::make_shared<std::promise<run_end>>();
  const auto run_roles = std::make_shared<std::vector<role>>();
  supervisor_setup supervising;
  supervising.roles = run_roles;
  supervising.orchestrator = orchestrator_slot;
  supervising.restarts = supervising.evaluators.restarts = restart_limits_of(config);
  supervising.hosts_join_at = config.env.bind;
  supervising.board = board;
  supervising.end = end;
  const supervisor_ref supervisor = spawn_supervisor(system, supervising);
  self.owns(supervisor);
  position.on_half(setup.side == evaluation_set_side::last);
  const std::size_t all = questions.prompts();
  const auto tell = [&position] { base::log_info("evaluation_set", "{}", position.line()); };
  setup.timing = [&position, tell](std::size_t timed, std::size_t to_time) {
    position.on_timed(timed, to_time);
    if (timed < to_time && is_told(timed, to_time)) tell();
  };
  setup.progress = [&position, tell, all](std::size_t answered) {
    position.on_answered(answered);
    if (is_told(answered, all)) tell();
  };
  // No learner is watched, and weights come with the welcome.
  worker_book workers({}, step_watch({}, clock), roles, 0);
  const head_actor_setup heading{
      setup.config_yaml, base::build_id(), setup.weights_folder, dispatch,
      supervisor,        &roles,           admission.secret,     false};
  const orchestrator_ref asking = spawn_head(
      system, heading,
      std::make_unique<evaluation_set_head>(std::move(setup), questions, std::move(workers)));
  self.owns(asking);
  *orchestrator_slot = asking;
  sink->supervisor = supervisor;
  sink->orchestrator = asking;
  QUERN_TRY(admission.port, listen_for_processes(system, asking, hosts.control()));
  QUERN_TRY(*run_roles, plan_roles(config, hosts, run.paths(), admission, {"generator"}));
  // A comparison that is not complete is made anew, so that stopping it is pausing it.
  const console_commands commands{[&]() -> base::json {
                                    return {{"progress", position.line()},
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
  const base::steady_clock clock;
  evaluation_set_position position(clock, questions.prompts());
  bool complete = true;
  for (const evaluation_set_side side : {evaluation_set_side::first, evaluation_set_side::last}) {
    evaluation_set_side_setup setup;
    setup.side = side;
    setup.model = side == evaluation_set_side::first ? first : last;
    setup.config_yaml = to_yaml(config);
    setup.weights_folder = weights_folder.string();
    setup.rollout = {measured_as(config), device_class};
    QUERN_TRY(complete,
              ask_side(config, run, tasks, std::move(setup), questions, position, signals));
    if (!complete) break;
  }
  std::error_code ignored;
  std::filesystem::remove_all(weights_folder, ignored);
  if (!complete) return std::optional<evaluation_set>();
  return std::optional<evaluation_set>(std::move(questions));
}

}  // namespace quern::actors
