#include "actors/control.hpp"

#include "actors/config/config_file.hpp"
#include "actors/config/device_class.hpp"
#include "actors/console.hpp"
#include "actors/decide/end_order.hpp"
#include "actors/decide/reception.hpp"
#include "actors/decide/role_report.hpp"
#include "actors/defaults.hpp"
#include "actors/dispatch_actor.hpp"
#include "actors/monitor.hpp"
#include "actors/node.hpp"
#include "actors/orchestrator_actor.hpp"
#include "actors/processes.hpp"
#include "base/log.hpp"
#include "base/pause_signals.hpp"
#include "base/program.hpp"
#include "policy/weights/weight_channel.hpp"
#include "storage/busy_wait.hpp"

namespace quern::actors {
namespace {

// A hello that came while run.db was waited for is answered in time.
static_assert(defaults::welcome_timeout >=
              defaults::start_timeout + std::chrono::nanoseconds(storage::busy_limits().longest) +
                  defaults::start_slack);

/// Waits for the end; a signal pauses, however the run was asked to end before: who sends one has
/// no time for a closing comparison.
run_end wait_for_end(std::future<run_end> end, const supervisor_ref& supervisor,
                     base::pause_signals& signals, double max_time_s, end_order& asked_to_end) {
  const base::steady_clock clock;
  const base::nanoseconds_t started = clock.now_ns();
  bool over = false, signalled = false;
  while (end.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (signals.arrived(100)) {
      signalled = true;
      if (asked_to_end.give(ending::pause)) {
        base::log_info("control", "pausing: waiting for the evaluations that run");
        caf::anon_send(supervisor, drain{static_cast<std::uint8_t>(ending::pause)});
      } else {
        base::log_info("control", "ending already: waiting for the evaluations that run");
      }
    }
    const double seconds = static_cast<double>(clock.now_ns() - started) / 1e9;
    if (max_time_s > 0 && seconds > max_time_s && !std::exchange(over, true) &&
        asked_to_end.give(ending::stop)) {
      caf::anon_send(supervisor, drain{static_cast<std::uint8_t>(ending::stop)});
    }
  }
  run_end ended = end.get();
  // An order that came while the processes of the last step were ending reached nobody.
  if (const auto how = asked_to_end.given(); how && ended.problem.empty()) {
    ended.ending_kind = signalled ? ending::pause : *how;
    ended.finished = false;
  }
  return ended;
}

}  // namespace

base::expected<run_end> run_control(const run_config& config, storage::run_directory& run,
                                    const task_book& tasks, const begun_news& begun) {
  base::pause_signals signals;
  const std::string config_yaml = to_yaml(config);
  QUERN_TRY(const run_hosts hosts, hosts_of_run(config));
  QUERN_TRY(const std::string device_class, device_class_of(config));
  QUERN_TRY(const auto head, orchestrator::open(config, run, tasks, device_class));
  begun(head->version(), head->incarnation());
  const base::steady_clock clock;
  const auto roles = std::make_shared<role_board>(clock);
  if (is_search(config)) roles->without(run_role::learner);
  const auto board = std::make_shared<device_board>();
  QUERN_TRY(const auto watch,
            monitor::make(config, run.paths(), head->version(), {*roles, *board, clock}));
  QUERN_TRY(const auto weights_folder, policy::make_weights_folder(run.sockets()));
  QUERN_CHECK(run.own(weights_folder));
  QUERN_TRY(const std::string hosts_socket, run.socket("hosts"));
  QUERN_TRY(const std::string console_socket, run.socket("console"));

  node self;
  caf::actor_system& system = self.system();
  const auto sink = std::make_shared<dispatch_sink>();
  dispatch_setup dispatching{
      &config, &tasks, device_class, head->incarnation(), {}, defaults::evaluation_queue,
      board,   roles};
  QUERN_TRY(dispatching.gateway,
            gateway_of(config, hosts, run.paths(), hosts_socket, head->incarnation()));
  QUERN_TRY(const dispatch_ref dispatch, spawn_dispatch(system, dispatching, sink));
  self.owns(dispatch);
  run_admission admission = admission_of(dispatching.gateway, sink->endpoints);
  QUERN_TRY(admission.secret, make_run_secret());

  const auto orchestrator_slot = std::make_shared<orchestrator_ref>();
  const auto end = std::make_shared<std::promise<run_end>>();
  supervisor_setup supervising;
  supervising.orchestrator = orchestrator_slot;
  supervising.end = end;
  supervising.restarts = restart_limits_of(config);
  supervising.evaluators.restarts = supervising.restarts;
  supervising.hosts_join_at = config.env.bind;
  supervising.board = board;
  const auto run_roles = std::make_shared<std::vector<role>>();
  supervising.roles = run_roles;
  const supervisor_ref supervisor = spawn_supervisor(system, supervising);
  self.owns(supervisor);

  const orchestrator_ref orchestrating = spawn_orchestrator(
      system, {&config, config_yaml, base::build_id(), device_class, weights_folder.string(),
               head.get(), watch.get(), dispatch, supervisor, roles.get(), admission.secret,
               hosts.where.spread() && !is_search(config)});
  self.owns(orchestrating);
  *orchestrator_slot = orchestrating;
  sink->supervisor = supervisor;
  sink->orchestrator = orchestrating;
  QUERN_TRY(admission.port, listen_for_processes(system, orchestrating, hosts.control()));
  std::vector<std::string> workers = {"learner", "generator"};
  if (is_search(config)) workers = {"generator"};
  QUERN_TRY(*run_roles, plan_roles(config, hosts, run.paths(), admission, workers));
  end_order asked_to_end;
  const console_commands commands{[&] {
                                    base::json now = watch->snapshot();
                                    now["hosts"] = board->snapshot();
                                    now["aside"] = board->aside();
                                    if (no_device_works(now["hosts"]))
                                      now["loop"]["held_back"] = to_json(held_back_by_quarantine());
                                    return now;
                                  },
                                  [&](ending how) {
                                    if (asked_to_end.give(how))
                                      caf::anon_send(supervisor,
                                                     drain{static_cast<std::uint8_t>(how)});
                                    return *asked_to_end.given();
                                  }};
  QUERN_TRY(const auto listening, console::serve(console_socket, commands));
  caf::anon_send(supervisor, tick{});
  const run_end ended =
      wait_for_end(end->get_future(), supervisor, signals, config.run.max_time_s, asked_to_end);

  watch->finish();
  self.end_actors();
  // Memory, as large as the policy: not for as long as a closing comparison takes.
  std::error_code ignored;
  std::filesystem::remove_all(weights_folder, ignored);
  if (ended.problem.empty()) QUERN_CHECK(head->close());
  return ended;
}

}  // namespace quern::actors
