// The evaluator's end of a runner's socket: one question at a time, with a deadline, believed in
// nothing but "done".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <tl/expected.hpp>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/status.hpp"
#include "env/runner/protocol.hpp"

namespace quern::env {

/// Why a question was not answered with `done`.
struct runner_failure {
  enum class kind {
    gone,     ///< the process ended
    timeout,  ///< CPU or wall limit of the question
    fault,    ///< it reported a signal before it died; `last` has the address
    host,     ///< nothing was asked: this process lacks memory or descriptors
    refused,  ///< it answered `failed`, `wrong_shape` or `wrong_dtype`; see `last` and `text`
    forged    ///< a message that answers no question: somebody else wrote on the socket
  };
  kind failure_kind = kind::gone;
  runner::reply last;
  std::string text;
  /// timeout: the process stood still by a signal (SIGSTOP), for question_limits::stopped_s or when
  /// its time was over.
  bool stopped = false;
};

template <class T>
using answered = tl::expected<T, runner_failure>;

/// Limits of one question. CPU time is what counts; wall time covers a machine that is busy. No
/// question waits longer than the calling thread's base::thread_deadline.
struct question_limits {
  double cpu_s = 0.5;
  double wall_s = 20;
  /// For so long the answer is looked for again and again: a thread that sleeps wakes some 200 us
  /// late on a virtual machine, at times.
  double awake_s = 0;
  /// A process that stands still by a signal (SIGSTOP) for so long is given up: whoever stopped it
  /// may never let it go on.
  double stopped_s = 10;
};

/// How long a thread was ready to run and did not, by Linux's account
/// (/proc/.../schedstat): time that another process had the core.
class waiting_time {
 public:
  waiting_time() = default;
  /// Of a process's first thread.
  explicit waiting_time(int pid);
  /// Of the calling thread.
  static waiting_time of_this_thread();
  /// Nanoseconds so far; 0 where Linux keeps no account.
  [[nodiscard]] std::int64_t ns() const;

 private:
  base::unique_fd file_;
};

/// A runner process as the evaluator sees it. Thread-compatible. Does not own the process.
class runner_link {
 public:
  runner_link() = default;
  /// `socket`: this side of the pair; `pid`: the runner in this process's pid namespace.
  runner_link(base::unique_fd socket, int pid);

  /// Both ends of a fresh SOCK_SEQPACKET pair: ours, the runner's.
  static base::expected<std::pair<base::unique_fd, base::unique_fd>> make_pair();

  answered<runner::reply> map(const runner::map_request& request, int fd, question_limits limits);
  answered<runner::reply> load(const std::string& path, question_limits limits);
  answered<runner::reply> script(const std::string& text, question_limits limits);
  answered<runner::reply> workspace(const runner::call_plan& plan, question_limits limits);
  answered<runner::reply> plan(const runner::call_plan& plan, question_limits limits);
  answered<runner::reply> flush(question_limits limits);

  /// Any question: what it carries, at most one descriptor (-1: none), and the wall time between
  /// question and answer where `wall` is given.
  answered<runner::reply> ask(runner::command what, std::span<const std::byte> body, int fd,
                              question_limits limits, base::nanoseconds_t* wall);

  /// Runs calls [begin, end) of the plan; the wall time between the order and the answer, in ns.
  answered<base::nanoseconds_t> run(std::int64_t begin, std::int64_t end, question_limits limits);

  /// CPU nanoseconds of the process and all its threads so far; -1 when it is gone.
  [[nodiscard]] std::int64_t cpu_ns() const;

  /// Nanoseconds for which its first thread was ready and did not run.
  [[nodiscard]] std::int64_t waited_ns() const { return waiting_.ns(); }

  /// Threads of the process; 0 when it is gone.
  [[nodiscard]] int threads() const;

  /// Whether something lies in the socket although nothing was asked.
  [[nodiscard]] bool has_unasked_message() const;

  [[nodiscard]] int pid() const { return pid_; }

 private:
  template <class Body>
  answered<runner::reply> ask_with(runner::command what, const Body& body, int fd,
                                   question_limits limits);
  answered<runner::reply> judge(const runner::reply& r, std::uint64_t ticket) const;

  base::unique_fd socket_;
  waiting_time waiting_;
  int pid_ = -1;
  std::uint64_t ticket_ = 0;
};

}  // namespace quern::env
