// The evaluator's end of a runner's socket.
#include "env/runner/link.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/thread_deadline.hpp"
#include "env/judge/judge_layer.hpp"
#include "env/runner/standing_process.hpp"

namespace quern::env {
namespace {

/// How long a receive sleeps before the limits are looked at.
constexpr int slice_us = 10'000;

/// How often it is looked whether a process that does not answer stands still.
constexpr base::nanoseconds_t look_ns = 500'000'000;

base::nanoseconds_t now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

tl::unexpected<runner_failure> failure(runner_failure::kind what, std::string text) {
  return tl::make_unexpected(runner_failure{what, {}, std::move(text)});
}

bool send_message(int socket, std::span<const std::byte> head, std::span<const std::byte> body,
                  int fd) {
  iovec parts[2] = {{const_cast<std::byte*>(head.data()), head.size()},
                    {const_cast<std::byte*>(body.data()), body.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = body.empty() ? 1 : 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

}  // namespace

waiting_time::waiting_time(int pid)
    : file_(open(fmt::format("/proc/{}/schedstat", pid).c_str(), O_RDONLY | O_CLOEXEC)) {}

waiting_time waiting_time::of_this_thread() {
  waiting_time result;
  result.file_.reset(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  return result;
}

std::int64_t waiting_time::ns() const {
  // "time on the processor, time waited for it, number of slices"
  std::array<char, 96> text{};
  const ssize_t got = pread(file_.get(), text.data(), text.size(), 0);
  if (got <= 0) return 0;
  const char* end = text.data() + got;
  const auto* space =
      static_cast<const char*>(std::memchr(text.data(), ' ', static_cast<std::size_t>(got)));
  std::int64_t value = 0;
  if (space != nullptr) std::from_chars(space + 1, end, value);
  return value;
}

runner_link::runner_link(base::unique_fd socket, int pid)
    : socket_(std::move(socket)), waiting_(pid), pid_(pid) {
  const timeval slice{0, slice_us};
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice);
}

base::expected<std::pair<base::unique_fd, base::unique_fd>> runner_link::make_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return base::fail_errno("socketpair");
  return std::pair{base::unique_fd(ends[0]), base::unique_fd(ends[1])};
}

answered<runner::reply> runner_link::ask(runner::command what, std::span<const std::byte> body,
                                         int fd, question_limits limits,
                                         base::nanoseconds_t* wall) {
  if (judges_with(judge_layer::messages) && has_unasked_message())
    return failure(runner_failure::kind::forged, "a message came that answers no question");
  if (base::thread_deadline::is_over())
    return failure(runner_failure::kind::timeout, "not asked: the time of all questions is over");
  limits.wall_s = base::thread_deadline::at_most(limits.wall_s);
  runner::header head;
  head.command_id = what;
  head.ticket = ++ticket_;
  const std::int64_t cpu_before = cpu_ns();
  runner::reply r;
  const base::nanoseconds_t start = now();
  if (!send_message(socket_.get(), std::as_bytes(std::span(&head, 1)), body, fd))
    return failure(runner_failure::kind::gone, "the runner is gone");
  const auto awake_until = start + static_cast<base::nanoseconds_t>(limits.awake_s * 1e9);
  base::nanoseconds_t look_at = start + look_ns, at_work = start;
  for (bool awake = limits.awake_s > 0;;) {
    const ssize_t got = recv(socket_.get(), &r, sizeof r, awake ? MSG_DONTWAIT : 0);
    const base::nanoseconds_t end = now();
    if (awake && got < 0 && errno == EAGAIN) {
      awake = end < awake_until;
      continue;
    }
    if (got == static_cast<ssize_t>(sizeof r)) {
      if (wall != nullptr) *wall = end - start;
      return judge(r, head.ticket);
    }
    if (got == 0 || (got < 0 && (errno == ECONNRESET || errno == EPIPE)))
      return failure(runner_failure::kind::gone, "the runner ended");
    if (got > 0 && !judges_with(judge_layer::messages)) return runner::reply{};
    if (got > 0)
      return failure(runner_failure::kind::forged, fmt::format("a message of {} bytes", got));
    if (errno != EAGAIN && errno != EINTR)
      return failure(runner_failure::kind::gone, fmt::format("recv: {}", std::strerror(errno)));
    const double wall_s = static_cast<double>(end - start) * 1e-9;
    const double cpu_s = static_cast<double>(cpu_ns() - cpu_before) * 1e-9;
    if (cpu_s > limits.cpu_s)
      return failure(
          runner_failure::kind::timeout,
          fmt::format("{:.2f} s of CPU time, the limit is {:.2f} s", cpu_s, limits.cpu_s));
    if (end >= look_at || wall_s > limits.wall_s) {
      look_at = end + look_ns;
      const bool stopped = is_standing(pid_);
      if (!stopped) at_work = end;
      const double still_s = static_cast<double>(end - at_work) * 1e-9;
      if (wall_s > limits.wall_s || still_s > limits.stopped_s) {
        auto over = failure(
            runner_failure::kind::timeout,
            stopped ? fmt::format("stopped by a signal; {:.1f} s, the limit is {:.1f} s", still_s,
                                  std::min(limits.stopped_s, limits.wall_s))
                    : fmt::format("{:.1f} s, the limit is {:.1f} s", wall_s, limits.wall_s));
        over.value().stopped = stopped;
        return over;
      }
    }
  }
}

answered<runner::reply> runner_link::judge(const runner::reply& r, std::uint64_t ticket) const {
  if (r.ticket != ticket && judges_with(judge_layer::messages))
    return failure(runner_failure::kind::forged,
                   fmt::format("an answer to question {}, asked was {}", r.ticket, ticket));
  if (r.reply_outcome == runner::outcome::done) return r;
  const std::size_t length = strnlen(r.text.data(), r.text.size());
  auto kind = r.reply_outcome == runner::outcome::fault ? runner_failure::kind::fault
                                                        : runner_failure::kind::refused;
  return tl::make_unexpected(runner_failure{kind, r, std::string(r.text.data(), length)});
}

template <class Body>
answered<runner::reply> runner_link::ask_with(runner::command what, const Body& body, int fd,
                                              question_limits limits) {
  return ask(what, std::as_bytes(std::span(&body, 1)), fd, limits, nullptr);
}

answered<runner::reply> runner_link::map(const runner::map_request& request, int fd,
                                         question_limits limits) {
  return ask_with(runner::command::map, request, fd, limits);
}

answered<runner::reply> runner_link::load(const std::string& path, question_limits limits) {
  runner::load_request body;
  if (path.size() >= body.path.size())
    return failure(runner_failure::kind::refused, fmt::format("path of {} bytes, the limit is {}",
                                                              path.size(), body.path.size() - 1));
  std::memcpy(body.path.data(), path.data(), path.size());
  return ask_with(runner::command::load, body, -1, limits);
}

answered<runner::reply> runner_link::script(const std::string& text, question_limits limits) {
  runner::script_request body;
  if (text.size() > body.text.size())
    return failure(
        runner_failure::kind::refused,
        fmt::format("reference of {} bytes, the limit is {}", text.size(), body.text.size()));
  body.bytes = static_cast<std::uint32_t>(text.size());
  std::memcpy(body.text.data(), text.data(), text.size());
  return ask_with(runner::command::script, body, -1, limits);
}

answered<runner::reply> runner_link::workspace(const runner::call_plan& p, question_limits limits) {
  return ask_with(runner::command::workspace, p, -1, limits);
}

answered<runner::reply> runner_link::plan(const runner::call_plan& p, question_limits limits) {
  return ask_with(runner::command::plan, p, -1, limits);
}

answered<runner::reply> runner_link::flush(question_limits limits) {
  return ask(runner::command::flush, {}, -1, limits, nullptr);
}

answered<base::nanoseconds_t> runner_link::run(std::int64_t begin, std::int64_t end,
                                               question_limits limits) {
  const runner::run_request body{begin, end};
  base::nanoseconds_t wall = 0;
  auto r = ask(runner::command::run, std::as_bytes(std::span(&body, 1)), -1, limits, &wall);
  if (!r) return tl::make_unexpected(std::move(r).error());
  return wall;
}

std::int64_t runner_link::cpu_ns() const {
  clockid_t id{};
  timespec t{};
  if (clock_getcpuclockid(pid_, &id) != 0 || clock_gettime(id, &t) != 0) return -1;
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

int runner_link::threads() const {
  struct stat info {};
  if (stat(fmt::format("/proc/{}/task", pid_).c_str(), &info) != 0) return 0;
  return static_cast<int>(info.st_nlink) - 2;
}

bool runner_link::has_unasked_message() const {
  std::byte one{};
  return recv(socket_.get(), &one, 1, MSG_DONTWAIT | MSG_PEEK) > 0;
}

}  // namespace quern::env
