// An evaluator host's engine: the socket in a thread of its own, evaluations on worker threads.
// What an evaluation is stays outside, so the same loop serves every kind of hardware.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/file.hpp"
#include "base/status.hpp"
#include "env/plugin/host_session.hpp"
#include "env/plugin/worker_threads.hpp"
#include "env/plugin/zmq_socket.hpp"

namespace quern::env {

/// CURVE, needed over tcp://: the host's own keys and the gateway's public key.
struct host_keys {
  curve_keys own;
  std::string gateway;
};

struct host_options {
  std::string endpoint;  ///< ipc://… or tcp://host:port
  std::optional<host_keys> keys;
  host_profile profile;
  /// Give up with `unavailable` if no gateway answers for so long; 0: try for ever.
  base::nanoseconds_t patience_ns = 0;
  /// Threads that call the prepare function, for all devices together.
  int preparers = 1;
  /// How evaluations that still run when the loop ends come back; their results are of no use.
  ending_rules ending = {};
};

/// Evaluates one job, on a worker thread of the job's device, one at a time on each device.
/// `cancelled` turns true when the result is of no use any more; the function may look at it and
/// return early. It must come back: a job that hangs holds its device for ever (sandboxes have
/// deadlines of their own).
using evaluate_function =
    std::function<host_result(const host_job& job, const std::atomic<bool>& cancelled)>;

/// Called on other threads, several at a time where the options say so, when a job arrives behind
/// one that is being evaluated, to compile ahead.
using prepare_function = std::function<void(const host_job& job)>;

/// Whether a device takes work: empty, or else why not. Called on the device's thread: first of
/// all, after each job and, as long as it takes none, about every second: time to try whether it
/// does again. Jobs that wait for it meanwhile are returned, to be done elsewhere.
using device_state_function = std::function<std::optional<std::string>(std::int64_t device)>;

struct host_statistics {
  std::int64_t jobs = 0;
  std::int64_t verdicts = 0;
  std::int64_t failures = 0;
  std::int64_t cancelled = 0;
  std::int64_t returned = 0;  ///< among the failures
  std::int64_t reconnections = 0;
  std::int64_t ignored_frames = 0;
};

class host_loop {
 public:
  /// Checks the options and opens the socket. Errors: invalid_argument (no device or lane, tcp://
  /// without keys), io.
  static base::expected<std::unique_ptr<host_loop>> make(host_options options,
                                                         evaluate_function evaluate,
                                                         prepare_function prepare = {},
                                                         device_state_function state = {});
  ~host_loop();

  /// Serves until drained or dismissed (success), refused (version, unavailable) or out of patience
  /// (unavailable). The calling thread does the input and output.
  base::status run();

  /// Finish what is there, then end. Any thread, also a signal handler.
  void drain();
  /// End now: says BYE, so that the gateway gives to others what this host has. Evaluations that
  /// run are brought to their end as host_options::ending says, and lost. Any thread, also a signal
  /// handler.
  void stop();

  /// After run().
  [[nodiscard]] host_statistics statistics() const;

 private:
  struct state;
  explicit host_loop(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace quern::env
