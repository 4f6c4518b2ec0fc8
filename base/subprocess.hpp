// Our own trusted processes (generator, learner, evaluator hosts) as children: started, watched,
// signalled, reaped. Untrusted code is started by env/sandbox, never by this.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/status.hpp"

namespace quern::base {

struct subprocess_spec {
  std::vector<std::string> argv = {};  ///< argv[0] is the program's path
  /// NAME=VALUE, put over the parent's environment.
  std::vector<std::string> environment = {};
  /// Where stdout and stderr go (appended); empty: the parent's.
  std::filesystem::path log = {};
  /// Written to the child's standard input, which then stays open for as long as the child is
  /// owned, or until close_input; at most 4 KiB. None: the parent's standard input.
  std::optional<std::string> input = {};
  /// SIGKILL when the thread that started it ends: start from a thread that lives as long as the
  /// process does.
  bool die_with_parent = true;
};

/// How a child ended.
struct exit_state {
  int code = 0;    ///< of a normal exit
  int signal = 0;  ///< that killed it; 0: a normal exit
};

/// "exit code 3", "killed by signal 9 (Killed)".
std::string describe(const exit_state& state);

/// Owns one child. Destroying it kills a child that still runs and reaps it. Not thread-safe.
class subprocess {
 public:
  /// Errors name the program: not there, not executable, out of processes.
  static expected<subprocess> start(const subprocess_spec& spec);

  subprocess(subprocess&& other) noexcept;
  subprocess& operator=(subprocess&& other) noexcept;
  ~subprocess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Becomes readable when the child has ended; for poll.
  [[nodiscard]] int pid_fd() const { return pid_fd_.get(); }

  /// The end, if it has come. After that the same answer for ever.
  std::optional<exit_state> poll();
  /// Waits for the end, at most `timeout`.
  std::optional<exit_state> wait(nanoseconds_t timeout);
  /// No effect on a child that has ended.
  void send_signal(int number);
  /// The child reads the end of what it was given as input.
  void close_input() { input_.reset(); }

 private:
  subprocess(pid_t pid, unique_fd pid_fd, unique_fd input)
      : pid_(pid), pid_fd_(std::move(pid_fd)), input_(std::move(input)) {}
  void end() noexcept;
  pid_t pid_ = -1;
  unique_fd pid_fd_;
  unique_fd input_;
  std::optional<exit_state> ended_;
};

}  // namespace quern::base
