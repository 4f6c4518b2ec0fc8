#include "policy/collectives/rendezvous_wire.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/endpoint.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

constexpr std::string_view unix_scheme = "unix:";
constexpr std::string_view tcp_scheme = "tcp://";
constexpr int waiting_connections = 256;
/// Of a connection over TCP, many times what a network takes for it. Where packets are dropped the
/// kernel would try for minutes, and whoever ends the thread that connects waits for it.
constexpr base::nanoseconds_t connect_patience = 1'000'000'000;

void write_beat(base::byte_writer& out, const rank_beat& where) {
  out.u64(where.sequence);
  out.u64(where.progress);
  out.i64(where.version);
  out.u8(where.waiting ? 1 : 0);
  out.text(where.phase);
  out.u8(where.connecting ? 1 : 0);
  out.i64(where.busy_for);
  out.i64(where.busy_limit);
  out.u64(where.begun);
  out.u8(where.unfinished ? 1 : 0);
}

base::expected<rank_beat> read_beat(base::byte_reader& in) {
  rank_beat where;
  QUERN_TRY(where.sequence, in.u64());
  QUERN_TRY(where.progress, in.u64());
  QUERN_TRY(where.version, in.i64());
  QUERN_TRY(const std::uint8_t waiting, in.u8());
  where.waiting = waiting != 0;
  QUERN_TRY(const std::string_view phase, in.text());
  where.phase = phase;
  QUERN_TRY(const std::uint8_t connecting, in.u8());
  where.connecting = connecting != 0;
  QUERN_TRY(where.busy_for, in.i64());
  QUERN_TRY(where.busy_limit, in.i64());
  QUERN_TRY(where.begun, in.u64());
  QUERN_TRY(const std::uint8_t unfinished, in.u8());
  where.unfinished = unfinished != 0;
  return where;
}

base::expected<sockaddr_un> unix_address(const std::string& address) {
  const std::string path = address.substr(unix_scheme.size());
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(where.sun_path))
    return fail(errc::invalid_argument, "rendezvous place {}: a path of 1 to {} bytes is needed",
                address, sizeof(where.sun_path) - 1);
  std::memcpy(where.sun_path, path.data(), path.size());
  return where;
}

using addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

base::expected<addresses> tcp_addresses(const std::string& address, bool listening) {
  const std::string place = address.substr(tcp_scheme.size());
  const std::size_t colon = place.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return fail(errc::invalid_argument, "rendezvous place {}: tcp://HOST:PORT is needed", address);
  // To listen at port 0 is to take a free one.
  const std::string port = place.substr(colon + 1);
  if (const auto number = base::parse_port(port); !number && !(listening && port == "0"))
    return base::in_context("rendezvous place " + address, number.error());
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = listening ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(place.substr(0, colon).c_str(), port.c_str(), &hints, &found);
  if (code != 0)
    return fail(errc::invalid_argument, "rendezvous place {}: {}", address, ::gai_strerror(code));
  return addresses(found, &::freeaddrinfo);
}

base::expected<base::unique_fd> open_socket(int family) {
  base::unique_fd made(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made) return base::fail_errno("cannot make a socket");
  return made;
}

/// The number of the error; 0: connected.
int connect_within(int socket, const addrinfo& where, base::nanoseconds_t patience) {
  const int flags = ::fcntl(socket, F_GETFL);
  if (::fcntl(socket, F_SETFL, flags | O_NONBLOCK) != 0) return errno;
  int code = ::connect(socket, where.ai_addr, where.ai_addrlen) == 0 ? 0 : errno;
  // Also after a signal the kernel goes on by itself.
  if (code == EINPROGRESS || code == EINTR) {
    const base::steady_clock clock;
    const base::nanoseconds_t deadline = clock.now_ns() + patience;
    pollfd open{socket, POLLOUT, 0};
    int ready = 0;
    do {
      const auto left = std::max<base::nanoseconds_t>(deadline - clock.now_ns(), 0);
      ready = ::poll(&open, 1, static_cast<int>((left + 999'999) / 1'000'000));
    } while (ready < 0 && errno == EINTR);
    socklen_t size = sizeof(code);
    if (ready <= 0)
      code = ETIMEDOUT;
    else
      ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &size);
  }
  ::fcntl(socket, F_SETFL, flags);
  return code;
}

}  // namespace

std::string encode_beat(const rank_beat& where, rendezvous_message word) {
  base::byte_writer out;
  out.u8(static_cast<std::uint8_t>(word));
  write_beat(out, where);
  return out.take();
}

std::string encode_verdict(const rank_verdict& verdict) {
  base::byte_writer out;
  out.u8(static_cast<std::uint8_t>(rendezvous_message::verdict));
  out.u32(static_cast<std::uint32_t>(verdict.rank));
  out.u8(static_cast<std::uint8_t>(verdict.fault));
  out.i64(verdict.age);
  write_beat(out, verdict.last);
  return out.take();
}

base::expected<rank_beat> decode_beat(std::string_view bytes) {
  base::byte_reader in(bytes);
  return read_beat(in);
}

base::expected<rank_verdict> decode_verdict(std::string_view bytes) {
  base::byte_reader in(bytes);
  rank_verdict verdict;
  QUERN_TRY(const std::uint32_t rank, in.u32());
  QUERN_TRY(const std::uint8_t fault, in.u8());
  if (fault > static_cast<std::uint8_t>(rank_fault::overdue))
    return fail(errc::corrupt, "fault {} of a rank is unknown", fault);
  verdict.rank = static_cast<std::int32_t>(rank);
  verdict.fault = static_cast<rank_fault>(fault);
  QUERN_TRY(verdict.age, in.i64());
  QUERN_TRY(verdict.last, read_beat(in));
  return verdict;
}

bool frame_reader::fill(int socket) {
  std::array<char, 16384> chunk{};
  // With so much the next frame is whole, or is none; the rest may wait where it is.
  while (buffer_.size() < sizeof(std::uint32_t) + largest_frame) {
    const ssize_t count = ::recv(socket, chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (count == 0) return false;
    buffer_.append(chunk.data(), static_cast<std::size_t>(count));
  }
  return true;
}

std::optional<std::string> frame_reader::next() {
  constexpr std::size_t head = sizeof(std::uint32_t);
  if (broken_ || buffer_.size() < head) return std::nullopt;
  const std::uint32_t size = base::byte_reader(buffer_).u32().value_or(0);
  broken_ = size == 0 || size > largest_frame;
  if (broken_ || buffer_.size() < head + size) return std::nullopt;
  std::string payload = buffer_.substr(head, size);
  buffer_.erase(0, head + size);
  return payload;
}

bool send_frame(int socket, std::string_view payload, int patience_ms) {
  base::byte_writer out;
  out.text(payload);
  const std::string bytes = out.take();
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        ::send(socket, bytes.data() + done, bytes.size() - done, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) {
      done += static_cast<std::size_t>(count);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    pollfd room{socket, POLLOUT, 0};
    if (::poll(&room, 1, patience_ms) <= 0) return false;
  }
  return true;
}

base::expected<base::unique_fd> listen_at(const std::string& address) {
  if (address.starts_with(unix_scheme)) {
    QUERN_TRY(const sockaddr_un where, unix_address(address));
    QUERN_TRY(base::unique_fd made, open_socket(AF_UNIX));
    ::unlink(where.sun_path);
    if (::bind(made.get(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)) != 0 ||
        ::listen(made.get(), waiting_connections) != 0)
      return base::fail_errno("cannot meet at " + address);
    return made;
  }
  if (!address.starts_with(tcp_scheme))
    return fail(errc::invalid_argument,
                "rendezvous place '{}' is not unix:/PATH or tcp://HOST:PORT", address);
  QUERN_TRY(const addresses found, tcp_addresses(address, true));
  QUERN_TRY(base::unique_fd made, open_socket(found->ai_family));
  const int yes = 1;
  ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (::bind(made.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(made.get(), waiting_connections) != 0)
    return base::fail_errno("cannot meet at " + address);
  return made;
}

base::expected<base::unique_fd> connect_to(const std::string& address) {
  if (address.starts_with(unix_scheme)) {
    QUERN_TRY(const sockaddr_un where, unix_address(address));
    QUERN_TRY(base::unique_fd made, open_socket(AF_UNIX));
    if (::connect(made.get(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)) != 0)
      return base::fail_errno("cannot reach the rendezvous place " + address);
    return made;
  }
  if (!address.starts_with(tcp_scheme))
    return fail(errc::invalid_argument,
                "rendezvous place '{}' is not unix:/PATH or tcp://HOST:PORT", address);
  QUERN_TRY(const addresses found, tcp_addresses(address, false));
  QUERN_TRY(base::unique_fd made, open_socket(found->ai_family));
  errno = connect_within(made.get(), *found, connect_patience);
  if (errno != 0) return base::fail_errno("cannot reach the rendezvous place " + address);
  const int yes = 1;
  ::setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  return made;
}

base::expected<std::uint16_t> port_of(int socket) {
  sockaddr_storage where{};
  socklen_t size = sizeof(where);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&where), &size) != 0)
    return base::fail_errno("cannot tell the port of a socket");
  // The port lies at the same place in addresses of both kinds.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&where)->sin_port);
}

}  // namespace quern::policy
