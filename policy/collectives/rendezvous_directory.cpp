#include "policy/collectives/rendezvous_directory.hpp"

#include <charconv>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "policy/collectives/rendezvous_wire.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

/// Of question and answer, a few bytes each: who takes longer is no part of the run, or asks again.
constexpr int directory_patience_ms = 500;

constexpr std::string_view directory_scheme = "tcp://";

/// Where the name begins, behind its slash.
std::size_t place_of_name(const std::string& address) {
  if (!address.starts_with(directory_scheme)) return std::string::npos;
  const std::size_t slash = address.find('/', directory_scheme.size());
  return slash == std::string::npos ? slash : slash + 1;
}

/// The one frame that the other end says; empty where it does not.
std::string hear_frame(int socket) {
  const base::steady_clock clock;
  const base::nanoseconds_t deadline = clock.now_ns() + directory_patience_ms * 1'000'000LL;
  frame_reader reader;
  while (clock.now_ns() < deadline) {
    pollfd watched{socket, POLLIN, 0};
    ::poll(&watched, 1, directory_patience_ms);
    const bool open = reader.fill(socket);
    if (auto payload = reader.next()) return std::move(*payload);
    if (!open || reader.broken()) break;
  }
  return "";
}

}  // namespace

base::expected<std::shared_ptr<rendezvous_directory>> rendezvous_directory::open(
    const std::string& host) {
  QUERN_TRY(base::unique_fd listening, listen_at(fmt::format("{}{}:0", directory_scheme, host)));
  base::unique_fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return base::fail_errno("cannot make a directory of rendezvous");
  QUERN_TRY(const std::uint16_t port, port_of(listening.get()));
  return std::shared_ptr<rendezvous_directory>(
      new rendezvous_directory(host, std::move(listening), std::move(stop), port));
}

rendezvous_directory::rendezvous_directory(std::string host, base::unique_fd listening,
                                           base::unique_fd stop, std::uint16_t port)
    : host_(std::move(host)),
      address_(fmt::format("{}{}:{}", directory_scheme, host_, port)),
      listening_(std::move(listening)),
      stop_(std::move(stop)),
      thread_([this] { run(); }) {}

rendezvous_directory::~rendezvous_directory() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void rendezvous_directory::add(const std::string& name, std::uint16_t port) {
  const std::lock_guard lock(mutex_);
  ports_[name] = port;
}

void rendezvous_directory::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  ports_.erase(name);
}

void rendezvous_directory::run() {
  while (true) {
    pollfd watched[2] = {{listening_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0) continue;
    if (watched[1].revents != 0) return;
    answer_one();
  }
}

void rendezvous_directory::answer_one() {
  const base::unique_fd peer(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!peer) return;
  const std::string name = hear_frame(peer.get());
  std::string port = "none";
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = ports_.find(name); known != ports_.end())
      port = std::to_string(known->second);
  }
  send_frame(peer.get(), port, directory_patience_ms);
}

std::string name_of_rendezvous(const std::string& address) {
  const std::size_t begin = place_of_name(address);
  return begin == std::string::npos ? "" : address.substr(begin);
}

base::expected<std::string> find_rendezvous(const std::string& address) {
  const std::size_t begin = place_of_name(address);
  if (begin == std::string::npos) return address;
  const std::string directory = address.substr(0, begin - 1);
  QUERN_TRY(const base::unique_fd socket, connect_to(directory));
  send_frame(socket.get(), address.substr(begin), directory_patience_ms);
  const std::string port = hear_frame(socket.get());
  if (port.empty())
    return fail(errc::unavailable, "the directory of rendezvous at {} does not answer", directory);
  if (port.find_first_not_of("0123456789") != std::string::npos)
    return fail(errc::unavailable, "the rendezvous {} has not begun", address);
  return directory.substr(0, directory.rfind(':') + 1) + port;
}

}  // namespace quern::policy
