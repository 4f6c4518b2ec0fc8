// The calls into libzmq.
#include "env/plugin/zmq_socket.hpp"

#include <array>
#include <utility>

#include <zmq.h>

#include "base/endpoint.hpp"

namespace quern::env {

using base::errc;
using base::fail;

namespace {

constexpr int high_water_mark = 1000;
constexpr std::size_t longest_ipc_path = 107;

auto zmq_failure(std::string_view doing) {
  return fail(errc::io, "{}: {}", doing, zmq_strerror(zmq_errno()));
}

/// What libzmq would take and read in another way: a path that Linux cuts, a port beyond
/// 65535.
base::status check_place(const std::string& endpoint, base::endpoint_use use) {
  constexpr std::string_view ipc = "ipc://";
  if (endpoint.starts_with("tcp://")) return base::check_tcp_endpoint(endpoint, use);
  if (!endpoint.starts_with(ipc) || endpoint.size() - ipc.size() <= longest_ipc_path) return {};
  return fail(errc::invalid_argument,
              "socket path '{}' has {} bytes; Linux's limit is {}; use a shorter folder",
              endpoint.substr(ipc.size()), endpoint.size() - ipc.size(), longest_ipc_path);
}

base::status set(void* socket, int option, int value) {
  if (zmq_setsockopt(socket, option, &value, sizeof value) != 0) {
    return zmq_failure("setting a socket option");
  }
  return {};
}

base::status set(void* socket, int option, const std::string& value) {
  if (zmq_setsockopt(socket, option, value.c_str(), value.size()) != 0) {
    return zmq_failure("setting a CURVE key (40 characters of Z85)");
  }
  return {};
}

/// Only where an address is of IPv6: a name that has both kinds is meant to be found by IPv4, since
/// libzmq would try the first answer of the resolver alone.
base::status choose_family(void* socket, const std::string& endpoint) {
  return set(socket, ZMQ_IPV6, endpoint.starts_with("tcp://[") ? 1 : 0);
}

struct zmq_frame {
  zmq_msg_t raw;
  zmq_frame() { zmq_msg_init(&raw); }
  ~zmq_frame() { zmq_msg_close(&raw); }
  zmq_frame(const zmq_frame&) = delete;
  zmq_frame& operator=(const zmq_frame&) = delete;
  std::string text() { return {static_cast<const char*>(zmq_msg_data(&raw)), zmq_msg_size(&raw)}; }
};

}  // namespace

base::expected<curve_keys> make_curve_keys() {
  std::array<char, 41> open{};
  std::array<char, 41> secret{};
  if (zmq_curve_keypair(open.data(), secret.data()) != 0) {
    return zmq_failure("making CURVE keys (does libzmq have CURVE?)");
  }
  return curve_keys{open.data(), secret.data()};
}

zmq_context::zmq_context() : handle_(zmq_ctx_new()) {}
zmq_context::~zmq_context() {
  zmq_ctx_term(handle_);
}

base::expected<zmq_socket> zmq_socket::open(zmq_context& context, socket_kind kind) {
  constexpr std::array types = {ZMQ_ROUTER, ZMQ_DEALER, ZMQ_REP, ZMQ_REQ};
  void* handle = ::zmq_socket(context.handle(), types[static_cast<std::size_t>(kind)]);
  if (handle == nullptr) return zmq_failure("opening a ZeroMQ socket");
  zmq_socket result(handle, kind);
  QUERN_CHECK(set(handle, ZMQ_LINGER, 0));
  QUERN_CHECK(set(handle, ZMQ_SNDHWM, high_water_mark));
  QUERN_CHECK(set(handle, ZMQ_RCVHWM, high_water_mark));
  const auto largest = static_cast<std::int64_t>(max_frame_bytes);
  if (zmq_setsockopt(handle, ZMQ_MAXMSGSIZE, &largest, sizeof largest) != 0) {
    return zmq_failure("limiting the message size");
  }
  if (kind == socket_kind::router) QUERN_CHECK(set(handle, ZMQ_ROUTER_MANDATORY, 1));
  return result;
}

zmq_socket::~zmq_socket() {
  if (handle_ != nullptr) zmq_close(handle_);
}

zmq_socket::zmq_socket(zmq_socket&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), kind_(other.kind_) {}

zmq_socket& zmq_socket::operator=(zmq_socket&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(kind_, other.kind_);
  return *this;
}

base::status zmq_socket::be_curve_server(const curve_keys& keys) {
  QUERN_CHECK(set(handle_, ZMQ_CURVE_SERVER, 1));
  QUERN_CHECK(set(handle_, ZMQ_ZAP_DOMAIN, std::string("quern")));
  return set(handle_, ZMQ_CURVE_SECRETKEY, keys.secret_key);
}

base::status zmq_socket::be_curve_client(const curve_keys& keys, const std::string& server_key) {
  QUERN_CHECK(set(handle_, ZMQ_CURVE_SERVERKEY, server_key));
  QUERN_CHECK(set(handle_, ZMQ_CURVE_PUBLICKEY, keys.public_key));
  return set(handle_, ZMQ_CURVE_SECRETKEY, keys.secret_key);
}

base::status zmq_socket::bind(const std::string& endpoint) {
  QUERN_CHECK(check_place(endpoint, base::endpoint_use::listen));
  QUERN_CHECK(choose_family(handle_, endpoint));
  if (zmq_bind(handle_, endpoint.c_str()) != 0) return zmq_failure("binding to " + endpoint);
  return {};
}

base::status zmq_socket::connect(const std::string& endpoint) {
  QUERN_CHECK(check_place(endpoint, base::endpoint_use::connect));
  QUERN_CHECK(choose_family(handle_, endpoint));
  if (zmq_connect(handle_, endpoint.c_str()) != 0) return zmq_failure("connecting to " + endpoint);
  return {};
}

void zmq_socket::linger(int milliseconds) {
  (void)set(handle_, ZMQ_LINGER, milliseconds);
}

std::string zmq_socket::endpoint() const {
  std::array<char, 512> text{};
  std::size_t size = text.size();
  if (zmq_getsockopt(handle_, ZMQ_LAST_ENDPOINT, text.data(), &size) != 0) return {};
  return text.data();
}

base::expected<std::optional<received>> zmq_socket::receive() {
  received result;
  bool first = true;
  for (bool more = true; more; first = false) {
    zmq_frame frame;
    if (zmq_msg_recv(&frame.raw, handle_, ZMQ_DONTWAIT) < 0) {
      if (first && (zmq_errno() == EAGAIN || zmq_errno() == EINTR)) return std::nullopt;
      return zmq_failure("receiving");
    }
    more = zmq_msg_more(&frame.raw) != 0;
    if (first && kind_ == socket_kind::router) {
      result.route = frame.text();
      continue;
    }
    if (const char* user = zmq_msg_gets(&frame.raw, "User-Id")) result.user = user;
    // The rest of a message with too many frames is read and thrown away.
    if (result.parts.size() <= max_frames) result.parts.push_back(frame.text());
  }
  return result;
}

base::expected<send_outcome> zmq_socket::send(const std::string& route, const frames& parts) {
  const bool routed = kind_ == socket_kind::router;
  if (routed && zmq_send(handle_, route.data(), route.size(), ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
    if (zmq_errno() == EHOSTUNREACH) return send_outcome::unreachable;
    if (zmq_errno() == EAGAIN) return send_outcome::full;
    return zmq_failure("sending");
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int flags = ZMQ_DONTWAIT | (i + 1 < parts.size() ? ZMQ_SNDMORE : 0);
    if (zmq_send(handle_, parts[i].data(), parts[i].size(), flags) < 0) {
      if (zmq_errno() == EAGAIN && i == 0) return send_outcome::full;
      if (zmq_errno() == EHOSTUNREACH) return send_outcome::unreachable;
      return zmq_failure("sending");
    }
  }
  return send_outcome::sent;
}

poll_result wait_for(std::span<const zmq_socket> sockets, int event_fd, long timeout_ms) {
  std::vector<zmq_pollitem_t> items;
  for (const auto& socket : sockets)
    items.push_back({socket.handle(), 0, ZMQ_POLLIN, 0});
  if (event_fd >= 0) items.push_back({nullptr, event_fd, ZMQ_POLLIN, 0});
  poll_result result;
  if (zmq_poll(items.data(), static_cast<int>(items.size()), timeout_ms) <= 0) return result;
  for (const auto& item : items) {
    if ((item.revents & ZMQ_POLLIN) == 0) continue;
    (item.socket != nullptr ? result.socket : result.event) = true;
  }
  return result;
}

}  // namespace quern::env
