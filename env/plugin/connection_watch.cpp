#include "env/plugin/connection_watch.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/core.h>
#include <zmq.h>

namespace quern::env {
namespace {

constexpr int watched_events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED |
                               ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                               ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                               ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;

std::optional<connection_event> event_of(std::uint16_t number) {
  switch (number) {
    case ZMQ_EVENT_CONNECTED:
      return connection_event::connected;
    case ZMQ_EVENT_CONNECT_RETRIED:
      return connection_event::retried;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      return connection_event::handshaken;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return connection_event::refused;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      return connection_event::cut;
    default:
      return std::nullopt;
  }
}

/// The next event: two frames, number and value, then the address.
std::optional<std::uint16_t> next_event(void* events) {
  std::array<char, 512> frame{};
  const int size = zmq_recv(events, frame.data(), frame.size(), ZMQ_DONTWAIT);
  if (size < 0) return std::nullopt;
  std::uint16_t number = 0;
  if (static_cast<std::size_t>(size) >= sizeof number)
    std::memcpy(&number, frame.data(), sizeof number);
  int more = 0;
  std::size_t length = sizeof more;
  while (zmq_getsockopt(events, ZMQ_RCVMORE, &more, &length) == 0 && more != 0)
    if (zmq_recv(events, frame.data(), frame.size(), ZMQ_DONTWAIT) < 0) break;
  return number;
}

}  // namespace

connection_story::connection_story(std::string endpoint, std::string public_key)
    : endpoint_(std::move(endpoint)), public_key_(std::move(public_key)) {}

void connection_story::note(connection_event what) {
  switch (what) {
    case connection_event::connected:
      accepted_ = true;
      // The attempts before it were accepted, too, and failed: that says more.
      if (now_ == state::unanswered || now_ == state::unheard) now_ = state::accepted;
      return;
    case connection_event::handshaken:
      now_ = state::handshaken;
      return;
    case connection_event::refused:
      now_ = state::refused;
      return;
    case connection_event::cut:
      // libzmq ends a connection whose key was refused, too.
      if (now_ != state::refused) now_ = state::cut;
      return;
    case connection_event::retried:
      if (!std::exchange(accepted_, false)) now_ = state::unheard;
      return;
  }
}

std::optional<std::string> connection_story::news() {
  const bool failing = now_ == state::unheard || now_ == state::cut || now_ == state::refused;
  if (!failing || std::exchange(told_, now_) == now_) return std::nullopt;
  return cause();
}

std::string connection_story::cause() const {
  switch (now_) {
    case state::unanswered:
      return fmt::format(
          "nothing answers at {}: the machine is down or not reached, or packets are dropped on "
          "the way",
          endpoint_);
    case state::unheard:
      return fmt::format(
          "nobody listens at {}: the run is not going, its env.bind has another port, or this "
          "machine does not know the host's name (getent hosts NAME tells)",
          endpoint_);
    case state::accepted:
      return fmt::format(
          "{} accepts connections and says nothing: it is no run's env.bind, or the run is frozen",
          endpoint_);
    case state::cut:
      return fmt::format(
          "{} accepts connections and ends them: --gateway-key is not the public key of the run "
          "there (the first line of its env.keys), or the port is not its env.bind",
          endpoint_);
    case state::refused:
      return fmt::format(
          "the run at {} does not admit this host's public key {}: add it to the run's env.hosts, "
          "which is read when the run starts or resumes",
          endpoint_, public_key_);
    case state::handshaken:
      return fmt::format("{} lets this host in and does not answer: the run is frozen or ending",
                         endpoint_);
  }
  return {};
}

base::expected<connection_watch> connection_watch::start(zmq_context& context,
                                                         zmq_socket& watched) {
  static std::atomic<std::uint64_t> number = 0;
  const std::string place = fmt::format("inproc://quern.events.{}", number++);
  const auto failed = [&](const char* doing) {
    return base::fail(base::errc::io, "{}: {}", doing, zmq_strerror(zmq_errno()));
  };
  if (zmq_socket_monitor(watched.handle(), place.c_str(), watched_events) != 0)
    return failed("watching a ZeroMQ socket");
  void* events = ::zmq_socket(context.handle(), ZMQ_PAIR);
  connection_watch made(watched.handle(), events);
  const int now = 0;
  if (events == nullptr || zmq_setsockopt(events, ZMQ_LINGER, &now, sizeof now) != 0 ||
      zmq_connect(events, place.c_str()) != 0)
    return failed("reading a ZeroMQ socket's events");
  return made;
}

connection_watch::~connection_watch() {
  // In this order: libzmq would wait for somebody who reads its events.
  if (watched_ != nullptr) zmq_socket_monitor(watched_, nullptr, 0);
  if (events_ != nullptr) zmq_close(events_);
}

connection_watch::connection_watch(connection_watch&& other) noexcept
    : watched_(std::exchange(other.watched_, nullptr)),
      events_(std::exchange(other.events_, nullptr)) {}

void connection_watch::read(connection_story& story) {
  while (const auto number = next_event(events_))
    if (const auto event = event_of(*number)) story.note(*event);
}

}  // namespace quern::env
