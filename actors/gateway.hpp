// The gateway: where evaluator hosts connect. A plain thread owns the ROUTER socket and the
// sessions; decisions about jobs are made elsewhere and reach it through an outbox.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/decide/ids.hpp"
#include "actors/decide/session_book.hpp"
#include "base/clock.hpp"
#include "base/status.hpp"
#include "env/plugin/message.hpp"
#include "env/plugin/zmq_socket.hpp"

namespace quern::actors {

/// CURVE for tcp:// endpoints: only the listed hosts may connect.
struct gateway_keys {
  env::curve_keys own;
  std::set<std::string> hosts;  ///< Z85 public keys
};

struct gateway_options {
  std::vector<std::string> endpoints;  ///< ipc://PATH (at most 107 bytes) and tcp://ADDRESS:PORT
  std::optional<gateway_keys> keys;    ///< required by tcp://, unused over ipc://
  std::string run = {};                ///< its name, for people at the hosts
  incarnation_id incarnation = 0;
  std::int64_t lease_ms = 60'000;
  std::int64_t heartbeat_ms = 1'000;
  std::size_t most_hosts = 1024;
};

/// What hosts do. All calls come from the gateway's thread, one after another; they must not block,
/// and may post to the gateway. An actor forwards them as messages to itself. A session's events
/// are between its `host_joined` and its `host_lost` or `host_left`.
class gateway_events {
 public:
  virtual ~gateway_events() = default;
  /// Numbers of a process and of its start are within int32.
  virtual void host_joined(session_id session, const env::hello_message& hello) = 0;
  virtual void credit(session_id session, std::int64_t device, std::int64_t granted) = 0;
  /// A verdict (JSON, not yet read). It is repeated until it is acknowledged.
  virtual void verdict(session_id session, lease_id lease, const std::string& text) = 0;
  /// The host could not evaluate. Repeated like a verdict.
  virtual void failed(session_id session, lease_id lease, const std::string& reason) = 0;
  /// The host did not begin: the device takes no work now, another one should have the job.
  /// Repeated like a verdict.
  virtual void returned(session_id session, lease_id lease, const std::string& reason) {
    failed(session, lease, reason);
  }
  /// All devices of the host that take no work for now, each time that this changes; none: all do.
  virtual void quarantined(session_id /*session*/,
                           const std::vector<env::quarantined_device>& /*devices*/) {}
  /// The host takes no new jobs.
  virtual void host_draining(session_id session) = 0;
  /// The session is over: gone, silent, or replaced by a new life of the same host.
  virtual void host_lost(session_id session, const std::string& why) = 0;
  /// The same, where the host said goodbye: what it held it gives back, begun or not.
  virtual void host_left(session_id session, const std::string& why) = 0;
  /// Text of a task file that a host asks for; empty: unknown, the host's jobs for it will fail.
  virtual std::optional<std::string> task_text(const base::hash128& task) = 0;
};

struct gateway_statistics {
  std::int64_t frames_in = 0;
  std::int64_t frames_out = 0;
  std::int64_t stale_frames = 0;  ///< of sessions that are over or of another connection
  std::int64_t refused_hellos = 0;
  std::int64_t bad_frames = 0;  ///< not readable
  std::int64_t unknown_types = 0;
  std::int64_t unreachable = 0;  ///< frames for connections that were gone
  std::int64_t refused_keys = 0;
};

class gateway {
 public:
  /// Binds all endpoints and starts the thread. With keys the key check (ZAP) runs and has proved
  /// that it answers before anything is bound. `events` and `time` must outlive the gateway.
  /// Errors: invalid_argument (no endpoint, path too long, tcp:// without keys), io, unavailable.
  static base::expected<std::unique_ptr<gateway>> start(gateway_options options,
                                                        gateway_events& events,
                                                        const base::clock& time);
  /// Says BYE to all hosts and ends the thread.
  ~gateway();

  /// From any thread: what is posted is done in order, soon. Posting to a session that is over does
  /// nothing; its `host_lost` or `host_left` has been or will be called.
  void send_job(env::job_message job);
  /// After the commit, or at once when it does not count.
  void acknowledge(session_id session, lease_id lease, bool accepted);
  void cancel(session_id session, lease_id lease, std::int64_t device);
  /// Takes a host out that cannot be used (`host_joined` was refused by the dispatcher).
  void refuse(session_id session, std::string code, std::string text, std::string hint);
  /// Asks all hosts to finish what they have and leave.
  void drain_hosts();

  /// Where it is bound, with real ports.
  [[nodiscard]] std::vector<std::string> endpoints() const;
  [[nodiscard]] gateway_statistics statistics() const;

 private:
  struct state;
  explicit gateway(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace quern::actors
