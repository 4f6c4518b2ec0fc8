// The gateway of the simulation: frames of hosts become messages to the head of dispatch and back,
// as the real one does it with sockets and a thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "actors/decide/session_book.hpp"
#include "actors/orchestrator/dispatch_head.hpp"
#include "env/plugin/message.hpp"
#include "env/plugin/time_outs.hpp"
#include "tools/sim/events.hpp"
#include "tools/sim/oracle.hpp"

namespace quern::sim {

inline constexpr nanoseconds_t lease_ns = 250'000'000;
inline constexpr std::int64_t heartbeat_ms = 100;
inline constexpr nanoseconds_t silence_ns = env::missed_heartbeats * heartbeat_ms * 1'000'000;

/// Lives as long as a control process.
class gateway_model {
 public:
  /// All outlive it. `to_host` sends a frame; `carry_out` takes the effects of `dispatch`.
  gateway_model(const event_queue& events, oracle& truth, actors::dispatch_head& dispatch,
                incarnation_id incarnation, std::function<void(int host, env::message)> to_host,
                std::function<void()> carry_out);

  void on_frame(int host, const env::message& what);
  /// What the head of dispatch tells hosts.
  void carry(const actors::to_host& effect);
  /// Silence, heartbeats, cancels that were not answered.
  void tick();

 private:
  void greet(int host, const env::hello_message& hello);
  void hear_of_devices(const env::heartbeat_message& beat);
  void send_job(const env::job_message& job);
  void answer(const actors::host_answer& said);
  void over(actors::session_id session, const std::string& why);
  void send(actors::session_id session, const env::message& what);
  /// Another host than `but` that takes work, as far as control was told.
  [[nodiscard]] bool other_works(int but) const;

  const event_queue& events_;
  oracle& truth_;
  actors::dispatch_head& dispatch_;
  std::function<void(int, env::message)> to_host_;
  std::function<void()> carry_out_;
  actors::session_book sessions_;
  std::map<actors::session_id, int> host_of_;
  std::set<actors::session_id> out_;  ///< their device takes no work
};

}  // namespace quern::sim
