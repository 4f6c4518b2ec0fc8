// A trusted process that is warm (its libraries are loaded) and forks sandboxed children on demand:
// the evaluator's side of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/status.hpp"

namespace quern::env {

/// Owns the process, which finds the other end of a SOCK_SEQPACKET pair on descriptor
/// runner::socket_fd, sends one message when it is ready, and ends when this object does.
/// Thread-compatible.
class warm_process {
 public:
  warm_process() = default;
  warm_process(warm_process&& other) noexcept { swap(other); }
  warm_process& operator=(warm_process&& other) noexcept {
    swap(other);
    return *this;
  }
  ~warm_process();

  /// How long the end of this object waits for one whose children end at once.
  static constexpr std::chrono::milliseconds usual_end_limit{200};
  /// How long an answer is waited for.
  static constexpr std::chrono::milliseconds usual_answer_limit{25'000};

  /// Starts `argv` (argv[0] is the program's path) with this environment and nothing else of ours,
  /// and waits two minutes until it is ready. When this object ends, the process has `end_limit` to
  /// end and reap its children, and is killed then: what it leaves goes to the host's first
  /// process. Error (unavailable): it cannot be started, or did not become ready.
  static base::expected<warm_process> start(std::vector<std::string> argv,
                                            std::vector<std::string> environment,
                                            std::chrono::milliseconds end_limit = usual_end_limit);

  /// What it said when it was ready.
  [[nodiscard]] const std::string& hello() const { return hello_; }
  [[nodiscard]] int pid() const { return pid_; }

  /// Sends a request, with the end of a socket that a new child is to have (empty: none goes with
  /// it), and waits `within` for the answer. Errors: unavailable: it is gone, does not answer, or
  /// did not answer before, since a late answer would be taken for the next one; io: it cannot be
  /// asked.
  base::expected<std::string> ask(std::span<const std::byte> request, base::unique_fd socket,
                                  std::chrono::milliseconds within = usual_answer_limit);

  /// Sends what has no answer, and does not wait until it is done: what is asked behind it is
  /// answered behind it. Errors as ask().
  base::status tell(std::span<const std::byte> order);

 private:
  void swap(warm_process& other) noexcept {
    std::swap(control_, other.control_);
    std::swap(pid_, other.pid_);
    std::swap(hello_, other.hello_);
    std::swap(end_limit_, other.end_limit_);
    std::swap(owes_an_answer_, other.owes_an_answer_);
  }
  base::unique_fd control_;
  int pid_ = -1;
  std::string hello_;
  std::chrono::milliseconds end_limit_ = usual_end_limit;
  bool owes_an_answer_ = false;
};

}  // namespace quern::env
