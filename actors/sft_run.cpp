#include "actors/sft_run.hpp"

#include <future>

#include <fmt/format.h>

#include "actors/console.hpp"
#include "actors/decide/end_order.hpp"
#include "actors/node.hpp"
#include "actors/sft_roles.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/pause_signals.hpp"
#include "env/grammar/corpus.hpp"
#include "storage/checkpoint.hpp"

namespace quern::actors {
namespace {

/// What asks a run to end early: signals, a command on its console, or its time that is over.
class end_requests {
 public:
  explicit end_requests(double max_time_s) : max_time_s_(max_time_s), started_(clock_.now_ns()) {}
  end_order order;

  /// Waits up to a tenth of a second for one; those that came stay.
  pause_request arrived() {
    const bool signalled = signals_.arrived(100);
    const base::nanoseconds_t now = clock_.now_ns();
    if (signalled && signalled_ >= 0 && now - signalled_ > one_gesture) at_once_ = true;
    if (signalled && signalled_ < 0) {
      signalled_ = now;
      order.give(ending::pause);
      base::log_info("sft", "pausing after what is at work; a second Ctrl-C ends it at once");
    }
    const double seconds = static_cast<double>(now - started_) / 1e9;
    if (max_time_s_ > 0 && seconds > max_time_s_ && order.give(ending::stop))
      base::log_info("sft", "stopping: run.max_time_s is {}", max_time_s_);
    if (at_once_) return pause_request::at_once;
    return order.given() ? pause_request::in_order : pause_request::none;
  }
  /// The end that was asked for; a signal pauses, as in the other stages.
  [[nodiscard]] ending how() const {
    return signalled_ >= 0 ? ending::pause : order.given().value_or(ending::pause);
  }

 private:
  /// Programs like timeout send a signal to a process and then to its group.
  static constexpr base::nanoseconds_t one_gesture = 500'000'000;

  base::pause_signals signals_;
  base::steady_clock clock_;
  double max_time_s_;
  base::nanoseconds_t started_, signalled_ = -1;
  bool at_once_ = false;
};

/// Until all roles are done, or an end that was requested has come.
run_end supervise(std::vector<role> roles, end_requests& requests) {
  node self;
  supervisor_setup setup;
  setup.roles = std::make_shared<std::vector<role>>(std::move(roles));
  setup.end = std::make_shared<std::promise<run_end>>();
  auto end = setup.end->get_future();
  const supervisor_ref supervisor = spawn_supervisor(self.system(), setup);
  self.owns(supervisor);
  caf::anon_send(supervisor, tick{});
  pause_request told = pause_request::none;
  while (end.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    const pause_request asked = requests.arrived();
    if (asked <= told) continue;
    told = asked;
    caf::anon_send(supervisor, drain{static_cast<std::uint8_t>(requests.how()),
                                     asked == pause_request::at_once});
  }
  run_end ended = end.get();
  // A request that came while the last process was ending reached nobody.
  if (told != pause_request::none && ended.problem.empty()) ended.finished = false;
  if (!ended.finished && ended.problem.empty()) ended.ending_kind = requests.how();
  return ended;
}

}  // namespace

base::expected<std::int64_t> durable_sft_step(const storage::run_paths& paths) {
  const auto latest = storage::checkpoint_store(paths.checkpoints()).latest();
  if (latest) return *latest;
  if (latest.error().code == base::errc::not_found) return 0;
  return tl::unexpected(latest.error());
}

base::expected<sft_position> sft_position_of(const run_config& config,
                                             const storage::run_paths& paths) {
  sft_position at;
  QUERN_TRY(const env::corpus_survey corpus, env::survey_corpus(corpus_of(config, paths)));
  at.records = corpus.records;
  QUERN_TRY(at.step, durable_sft_step(paths));
  return at;
}

base::expected<run_end> run_sft(const run_config& config, storage::run_directory& run) {
  end_requests requests(config.run.max_time_s);
  const storage::run_paths& paths = run.paths();
  QUERN_TRY(const std::string console_socket, run.socket("console"));
  const console_commands commands{
      [&]() -> base::json {
        const auto at = sft_position_of(config, paths);
        if (!at) return {{"error", at.error().message}};
        return {{"progress", fmt::format("{} records in the corpus, step {} of {} is durable",
                                         at->records, at->step, config.learner.steps)},
                {"verdicts", base::json::object()}};
      },
      [&](ending how) {
        requests.order.give(how);
        return *requests.order.given();
      }};
  QUERN_TRY(const auto listening, console::serve(console_socket, commands));
  QUERN_TRY(const role corpus, corpus_role(config, paths));
  return supervise({corpus, tuning_role(config, run)}, requests);
}

}  // namespace quern::actors
