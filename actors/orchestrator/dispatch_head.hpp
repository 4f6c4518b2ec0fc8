// Everything that is decided about evaluations between the orchestrator and its evaluator hosts,
// without actors and sockets: each message is a call, and what follows from it is a list of
// effects. The dispatch actor and the simulation (tools/sim) own one each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/decide/device_board.hpp"
#include "actors/decide/evaluation_scheduler.hpp"
#include "actors/decide/role_board.hpp"
#include "actors/messages.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "env/plugin/message.hpp"

namespace quern::actors {

// ---- effects: one message to be sent ----

/// A host that this run cannot use is told why, and its session ends.
struct refuse_host {
  session_id session = 0;
  std::string code, text, hint;
};
struct acknowledge_lease {
  session_id session = 0;
  lease_id lease = 0;
  bool accepted = false;
};
struct cancel_lease {
  session_id session = 0;
  lease_id lease = 0;
  std::int64_t device = 0;
};
struct to_host {
  std::variant<env::job_message, acknowledge_lease, cancel_lease, refuse_host> message;
};
struct to_run_head {
  std::variant<sample_verdict, jobs_withdrawn, fatal_problem> message;
};
struct about_hosts {
  std::variant<evaluators_present, process_contact> message;
};
/// `on_time` is to be called at `when`.
struct wake_at {
  nanoseconds_t when = 0;
};

using dispatch_effect = std::variant<to_host, to_run_head, about_hosts, wake_at>;

/// Not thread-safe. `now` is any monotone clock. After each call the owner takes the effects and
/// carries them out in their order.
class dispatch_head {
 public:
  struct settings {
    const run_config* config = nullptr;  ///< outlives it
    const task_book* tasks = nullptr;    ///< likewise
    std::string device_class;
    incarnation_id incarnation = 0;
    std::int64_t lease_ms = 60'000;
    std::shared_ptr<device_board> board = {};
    std::shared_ptr<role_board> roles = {};
  };

  dispatch_head(settings chosen, const evaluation_scheduler::limits& limits);

  /// What is to be done since the last call, in order.
  std::vector<dispatch_effect> take_effects() { return std::exchange(effects_, {}); }

  // ---- from the orchestrator ----
  void on_job(const evaluate_sample& job, nanoseconds_t now);
  void on_committed(const verdict_committed& done);
  void on_incarnation(const incarnation_began& began);
  /// Hosts are sent nothing any more, and what waits for one is given back.
  void on_drain(nanoseconds_t now);

  // ---- from hosts ----
  void on_joined(const host_joined& host);
  void on_credit(const host_credit& credit, nanoseconds_t now);
  void on_answer(const host_answer& answer, nanoseconds_t now);
  void on_leaves(const host_leaves& host, nanoseconds_t now);
  /// `unix_now`: for people.
  void on_devices(const host_devices& host, nanoseconds_t now, std::int64_t unix_now);

  /// What `wake_at` asks for: leases that ran out, pauses that are over.
  void on_time(nanoseconds_t now);

  [[nodiscard]] const evaluation_scheduler& scheduler() const { return scheduler_; }

 private:
  template <class Effect, class Message>
  [[gnu::noinline]] void effect(Message message) {
    effects_.emplace_back(std::in_place_type<Effect>, std::move(message));
  }
  void withdraw();
  void tell_present();
  void send_jobs(nanoseconds_t now);
  [[nodiscard]] env::job_message frame_of(const job_order& order) const;
  void cancel(lease_id lease);
  void pass_on(const lease_result& result, lease_id lease, std::string json);
  [[nodiscard]] std::string infra_error(const evaluate_sample& job, const std::string& why) const;
  void lost(const lease_result& result, const std::string& why);
  /// What the scheduler makes of an answer; `json`: emptied where it cannot be read.
  lease_result result_of(const host_answer& answer, std::string& json, nanoseconds_t now);

  settings settings_;
  evaluation_scheduler scheduler_;
  std::vector<dispatch_effect> effects_;
  std::unordered_map<sample_id, evaluate_sample> jobs_;
  std::unordered_map<lease_id, device_key> holders_;     ///< until acknowledged or cancelled
  std::unordered_map<session_id, std::int32_t> starts_;  ///< of hosts that the run started
  std::unordered_map<session_id, std::vector<std::int64_t>> devices_;
  evaluators_present told_;   ///< what the supervisor knows
  bool sink_is_set_ = false;  ///< processes or jobs of the run have come
  incarnation_id incarnation_ = 0;
  std::optional<nanoseconds_t> timer_;  ///< when the next `on_time` comes
  bool draining_ = false;               ///< nothing is sent to hosts any more
};

}  // namespace quern::actors
