// What an evaluator host says and when: its side of the protocol as a plain class, without socket,
// thread or clock of its own.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "env/plugin/message.hpp"

namespace quern::env {

struct host_profile {
  std::string build;
  std::vector<std::string> lanes;
  std::vector<host_device> devices;
  std::int64_t pid = 0;    ///< told in HELLO; 0: not told
  std::string name = {};   ///< likewise; empty: not told
  std::int64_t start = 0;  ///< likewise; 0: not told
  /// HELLO, NEED and unacknowledged verdicts are sent again after so long.
  base::nanoseconds_t retry_ns = 500'000'000;
  /// No new credit while so many verdicts wait for their acknowledgement: the gateway cannot
  /// commit.
  std::size_t most_unacknowledged = 64;
};

/// A job whose task is at hand.
struct host_job {
  job_message job;
  std::shared_ptr<const std::string> task;  ///< text of the task file
  base::nanoseconds_t deadline = 0;         ///< on the host's clock
};

/// What an evaluation ended with: the verdict (JSON), or why there is none.
struct host_result {
  bool failed = false;
  std::string text;
  bool returned = false;  ///< with `failed`: not begun, another device should
};

/// What to do now, in this order.
struct host_actions {
  bool reconnect = false;  ///< the gateway is silent: close the socket, connect again, then send
  std::vector<message> send;
  std::vector<host_job> start;
  std::vector<std::uint64_t> cancel;  ///< leases whose work is of no use any more
  bool done = false;                  ///< drained, or told to go
  bool joined = false;                ///< a session has begun
  std::optional<base::error> end;     ///< refused: the host ends with this message
};

/// Every call returns what follows from it. Not thread-safe.
///
/// A lease is started once, whatever is doubled. It is finished by `finished` or by CANCEL,
/// whichever comes first, and that raises the device's credit by one, also for a job that was
/// cancelled without ever arriving; each CANCEL is answered with FAILED. A verdict is repeated
/// until acknowledged. A WELCOME with another session than before voids everything: running leases
/// are cancelled, verdicts forgotten, and the host greets anew with a fresh nonce.
class host_session {
 public:
  host_session(host_profile profile, std::uint64_t nonce);

  host_actions on_message(const message& what, base::nanoseconds_t now);
  /// Heartbeats, repetitions, silence of the gateway. To be called at `next_wakeup` at the latest.
  host_actions on_time(base::nanoseconds_t now);
  /// An evaluation ended. Ignored for leases that are over.
  host_actions finished(std::uint64_t lease, host_result result, base::nanoseconds_t now);
  /// Take no more jobs, finish what is there, say goodbye.
  host_actions drain(base::nanoseconds_t now);
  /// Goes at once, whatever it holds: says so, for the gateway to give the work to others now and
  /// not when it misses the heartbeats.
  host_actions leave();
  /// Why a device takes no work from now on; empty: it does again. Until then its finished jobs
  /// raise no credit, and each heartbeat names it. Kept from session to session.
  host_actions device_state(std::int64_t device, std::optional<std::string> why,
                            base::nanoseconds_t now);

  [[nodiscard]] base::nanoseconds_t next_wakeup() const;
  [[nodiscard]] std::uint64_t session() const { return session_; }
  /// "HOST has joined run NAME: lanes NAME; devices 0 (CLASS, 3 jobs at a time)".
  [[nodiscard]] std::string joined_text() const;
  [[nodiscard]] std::size_t held() const { return held_.size(); }
  [[nodiscard]] std::size_t unacknowledged() const { return unacknowledged_.size(); }

 private:
  struct held_job {
    job_message job;
    base::nanoseconds_t deadline;
    bool started = false;
  };
  struct device_out {
    std::string reason;
    base::nanoseconds_t since = 0;
  };
  struct unsent_verdict {
    message frame;
    base::nanoseconds_t again_at;
  };

  void greet(base::nanoseconds_t now, host_actions& actions);
  void welcome(const welcome_message& in, base::nanoseconds_t now, host_actions& actions);
  void take(const job_message& job, base::nanoseconds_t now, host_actions& actions);
  void start(held_job& held, const std::shared_ptr<const std::string>& task, host_actions& actions);
  void cancel(const cancel_message& in, host_actions& actions);
  void release(std::uint64_t lease, std::int64_t device, host_actions& actions);
  void void_all(host_actions& actions);
  void say_credit(std::int64_t device, host_actions& actions);
  void check_drained(host_actions& actions);
  [[nodiscard]] heartbeat_message beat(base::nanoseconds_t now) const;

  host_profile profile_;
  std::uint64_t nonce_;
  std::uint64_t session_ = 0;  // 0: not welcomed yet
  std::string run_;
  bool greeting_ = true;
  bool draining_ = false;
  bool done_ = false;
  base::nanoseconds_t heartbeat_ns_;
  base::nanoseconds_t next_hello_ = 0;
  base::nanoseconds_t next_heartbeat_ = 0;
  base::nanoseconds_t last_heard_ = 0;
  std::map<std::int64_t, std::int64_t> granted_;  // by device
  std::map<std::int64_t, device_out> out_;        // devices that take no work
  std::map<std::int64_t, std::int64_t> owed_;     // credit that they did not ask for
  std::map<std::uint64_t, held_job> held_;        // by lease
  std::map<std::uint64_t, unsent_verdict> unacknowledged_;
  std::map<base::hash128, base::nanoseconds_t> needed_;  // asked for, and when to ask again
  std::map<base::hash128, std::shared_ptr<const std::string>> tasks_;
  std::deque<base::hash128> task_age_;
  std::deque<std::uint64_t> over_;  // the latest finished leases of this session
};

}  // namespace quern::env
