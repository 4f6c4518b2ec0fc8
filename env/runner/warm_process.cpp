// A warm process that forks children on demand: the evaluator's side.
#include "env/runner/warm_process.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/measuring_cores.hpp"
#include "env/runner/link.hpp"

namespace quern::env {
namespace {

/// Libraries on a cold disk, beside busy neighbours.
constexpr int warm_up_limit_ms = 120'000;

base::status send_request(int control, std::span<const std::byte> request, int fd) {
  iovec part{const_cast<std::byte*>(request.data()), request.size()};
  alignas(cmsghdr) char extra[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = extra;
    message.msg_controllen = sizeof extra;
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  if (sendmsg(control, &message, MSG_NOSIGNAL) >= 0) return {};
  // A broken connection is how its death shows first: the caller starts another one.
  const int number = errno;
  return base::fail(
      number == EPIPE || number == ECONNRESET ? base::errc::unavailable : base::errc::io,
      "asking a warm process: {}", std::strerror(number));
}

/// One message within the time; empty: none.
std::string message_within(int fd, int ms) {
  std::array<char, 4096> buffer;
  pollfd wait{fd, POLLIN, 0};
  if (poll(&wait, 1, ms) <= 0) return {};
  const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
  return got > 0 ? std::string(buffer.data(), static_cast<std::size_t>(got)) : std::string();
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

base::expected<warm_process> warm_process::start(std::vector<std::string> argv,
                                                 std::vector<std::string> environment,
                                                 std::chrono::milliseconds end_limit) {
  QUERN_TRY(auto ends, runner_link::make_pair());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends.second.get(), runner::socket_fd);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
  pid_t pid = -1;
  const base::off_measuring_cores beside;
  const int error = posix_spawn(&pid, argv.front().c_str(), &actions, nullptr,
                                pointers_to(argv).data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return base::fail(base::errc::unavailable, "cannot start {}: {}", argv.front(),
                      std::strerror(error));
  warm_process started;
  started.pid_ = pid;
  started.end_limit_ = end_limit;
  started.control_ = std::move(ends.first);
  ends.second.reset();
  started.hello_ = message_within(started.control_.get(), warm_up_limit_ms);
  if (started.hello_.empty())
    return base::fail(base::errc::unavailable,
                      "{} {} did not become ready: run it by hand to see why", argv.front(),
                      argv.size() > 1 ? argv[1] : "");
  return started;
}

warm_process::~warm_process() {
  control_.reset();  // end of file: the process ends, and its children with it
  if (pid_ < 0) return;
  kill(pid_, SIGCONT);  // one that is stopped sees no end of file
  const auto deadline = std::chrono::steady_clock::now() + end_limit_;
  do {
    if (waitpid(pid_, nullptr, WNOHANG) != 0) return;
    usleep(2000);
  } while (std::chrono::steady_clock::now() < deadline);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

base::expected<std::string> warm_process::ask(std::span<const std::byte> request,
                                              base::unique_fd socket,
                                              std::chrono::milliseconds within) {
  if (owes_an_answer_)
    return base::fail(base::errc::unavailable, "a warm process did not answer before this");
  QUERN_CHECK(send_request(control_.get(), request, socket.get()));
  std::string answer = message_within(control_.get(), static_cast<int>(within.count()));
  if (answer.empty()) {
    owes_an_answer_ = true;
    return base::fail(base::errc::unavailable, "a warm process does not answer");
  }
  return answer;
}

base::status warm_process::tell(std::span<const std::byte> order) {
  return send_request(control_.get(), order, -1);
}

}  // namespace quern::env
