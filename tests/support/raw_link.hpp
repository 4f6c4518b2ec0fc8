// The evaluator's end of a runner's socket for tests that send what an evaluator never sends.
#pragma once

#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.hpp"
#include "env/runner/command_rules.hpp"
#include "env/runner/link.hpp"
#include "support/test.hpp"

namespace quern::test {

/// One message in any form. Descriptors stay the caller's.
class raw_link {
 public:
  explicit raw_link(base::unique_fd socket) : socket_(std::move(socket)) {}

  void send_bytes(std::span<const std::byte> message, std::span<const int> descriptors = {}) {
    iovec part{const_cast<std::byte*>(message.data()), message.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
    msghdr whole{};
    whole.msg_iov = &part;
    whole.msg_iovlen = 1;
    if (!descriptors.empty()) {
      whole.msg_control = control.data();
      whole.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
      cmsghdr* c = CMSG_FIRSTHDR(&whole);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(descriptors.size_bytes());
      std::memcpy(CMSG_DATA(c), descriptors.data(), descriptors.size_bytes());
    }
    REQUIRE(sendmsg(socket_.get(), &whole, MSG_NOSIGNAL) == std::ssize(message));
  }

  void send_with_ticket(std::uint64_t ticket, env::runner::command what,
                        std::span<const std::byte> body, std::span<const int> descriptors = {}) {
    env::runner::header head;
    head.command_id = what;
    head.ticket = ticket;
    std::vector<std::byte> message(sizeof head);
    std::memcpy(message.data(), &head, sizeof head);
    message.insert(message.end(), body.begin(), body.end());
    send_bytes(message, descriptors);
  }

  /// The answer that came; none where the socket was closed.
  std::optional<env::runner::reply> answer() {
    pollfd wait{socket_.get(), POLLIN, 0};
    REQUIRE(poll(&wait, 1, 60'000) == 1);
    env::runner::reply r;
    const ssize_t got = recv(socket_.get(), &r, sizeof r, 0);
    if (got <= 0) return {};
    REQUIRE(got == static_cast<ssize_t>(sizeof r));
    return r;
  }

  /// What is said to a command of the next ticket: "done", or the text of the refusal.
  std::string ask(env::runner::command what, std::span<const std::byte> body,
                  std::span<const int> descriptors = {}) {
    send_with_ticket(++ticket_, what, body, descriptors);
    return said(ticket_);
  }
  std::string ask(env::runner::command what, std::size_t bytes,
                  std::span<const int> descriptors = {}) {
    return ask(what, std::vector<std::byte>(bytes), descriptors);
  }

  /// What is said under this ticket.
  std::string said(std::uint64_t ticket) {
    const auto r = answer();
    if (!r) return "closed";
    CHECK(r->ticket == ticket);
    if (r->reply_outcome == env::runner::outcome::done) return "done";
    CHECK(r->reply_outcome == env::runner::outcome::failed);
    return r->text.data();
  }

  [[nodiscard]] std::uint64_t ticket() const { return ticket_; }
  void close() { socket_.reset(); }

 private:
  base::unique_fd socket_;
  std::uint64_t ticket_ = 0;
};

/// Descriptors that a process has open.
inline std::ptrdiff_t open_descriptors(int pid) {
  const std::filesystem::path folder = "/proc/" + std::to_string(pid) + "/fd";
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

/// Messages that no runner takes, to one that has gpu_import, gpu_call, gpu_window, gpu_drop and
/// script, a device that is open, and no other answer to a right gpu_drop than "done". `pid`: whose
/// descriptors are counted.
inline void check_refusals(raw_link& link, int pid) {
  using env::runner::command;
  using env::runner::rule_of;
  const auto file = base::temp_folder::make("quern-refusals").value();
  const base::unique_fd one(open(file.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::array<int, 2> two{one.get(), one.get()};
  const auto alone = std::span(two).first(1);
  const auto drop = [&] { return link.ask(command::gpu_drop, 0); };
  REQUIRE(drop() == "done");
  const auto before = open_descriptors(pid);

  const auto size_of = [](command what) { return rule_of(what).most_bytes; };
  CHECK(contains(link.ask(command::gpu_drop, 1), "has 0 to 0 bytes, 1 came"));
  CHECK(contains(link.ask(command::gpu_call, size_of(command::gpu_call) - 1), "bytes"));
  CHECK(contains(link.ask(command::gpu_call, size_of(command::gpu_call) + 1), "bytes"));
  CHECK(contains(link.ask(command::gpu_call, 0), "0 came"));
  CHECK(contains(link.ask(command::gpu_window, rule_of(command::gpu_window).least_bytes - 1),
                 "bytes"));
  CHECK(contains(link.ask(command::gpu_window, size_of(command::gpu_window) + 1), "bytes"));
  CHECK(drop() == "done");

  CHECK(contains(link.ask(command::run, size_of(command::run)), "has no command 5"));
  CHECK(contains(link.ask(static_cast<command>(1000), 8), "has no command 1000"));
  CHECK(contains(link.ask(static_cast<command>(0xFFFFFFFF), 0), "has no command 4294967295"));
  CHECK(drop() == "done");

  const std::size_t import = size_of(command::gpu_import);
  CHECK(contains(link.ask(command::gpu_import, import), "without its descriptor"));
  CHECK(contains(link.ask(command::gpu_import, import, two), "did not arrive"));
  CHECK(contains(link.ask(command::gpu_drop, 0, alone), "came with a descriptor"));
  CHECK(contains(link.ask(command::gpu_drop, 0, two), "did not arrive"));
  CHECK(contains(link.ask(command::run, size_of(command::run), alone), "has no command"));
  CHECK(contains(link.ask(command::gpu_import, import + 1, alone), "bytes"));
  CHECK(drop() == "done");

  // A ticket that was used before, and one from before that.
  for (const std::uint64_t old : {link.ticket(), link.ticket() - 1, std::uint64_t{0}}) {
    link.send_with_ticket(old, command::gpu_drop, {});
    CHECK(contains(link.said(old), "ticket"));
  }
  CHECK(drop() == "done");
  CHECK(open_descriptors(pid) == before);
}

}  // namespace quern::test
