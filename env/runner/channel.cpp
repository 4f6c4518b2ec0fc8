// The runner's end of the socket.
#include "env/runner/channel.hpp"

#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

namespace quern::env::runner {

namespace {

std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

}  // namespace

std::size_t receive(int socket, std::span<std::byte> buffer, int& fd, std::int64_t awake_ns) {
  fd = no_descriptor;
  errno = 0;
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  // Not CMSG_SPACE: with its padding a second descriptor would fit, and stay.
  message.msg_controllen = CMSG_LEN(sizeof(int));
  ssize_t got = -1;
  if (awake_ns > 0)
    for (const std::int64_t until = now_ns() + awake_ns; got < 0 && now_ns() < until;)
      got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  while (got < 0) {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno != EINTR) return 0;
  }
  if (got <= 0 || (message.msg_flags & MSG_TRUNC) != 0) return 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c))
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
      std::memcpy(&fd, CMSG_DATA(c), sizeof fd);
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    if (fd >= 0) close(fd);
    fd = unusable_descriptor;
  }
  return static_cast<std::size_t>(got);
}

int status_without_socket() {
  return errno == EBADF || errno == ENOTSOCK ? lost_socket_status : 0;
}

bool send_reply(int socket, const reply& what) {
  ssize_t sent = 0;
  do {
    sent = send(socket, &what, sizeof what, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof what);
}

reply make_reply(std::uint64_t ticket, outcome how, std::uint64_t value, const char* text) {
  reply r;
  r.ticket = ticket;
  r.reply_outcome = how;
  r.value = value;
  if (text != nullptr) {
    const std::size_t length = strnlen(text, r.text.size() - 1);
    std::memcpy(r.text.data(), text, length);
  }
  return r;
}

}  // namespace quern::env::runner
