// ZeroMQ behind a narrow door: every socket has its limits set, nothing blocks, nothing throws.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.hpp"
#include "env/plugin/message_codec.hpp"

namespace quern::env {

/// A pair of CURVE keys, 40 characters of Z85 each.
struct curve_keys {
  std::string public_key;
  std::string secret_key;
};
base::expected<curve_keys> make_curve_keys();

/// A ZeroMQ context, thread-safe. Sockets must be closed before it goes, or its end waits for them.
/// Not to be used across a fork.
class zmq_context {
 public:
  zmq_context();
  ~zmq_context();
  zmq_context(const zmq_context&) = delete;
  zmq_context& operator=(const zmq_context&) = delete;
  [[nodiscard]] void* handle() const { return handle_; }

 private:
  void* handle_;
};

enum class socket_kind { router, dealer, rep, req };

enum class send_outcome {
  sent,
  full,        ///< the high-water mark is reached: the peer does not read
  unreachable  ///< ROUTER: no such connection (any more)
};

/// What a ROUTER or DEALER received. `route` and `user` are for ROUTERs: the connection, and the
/// CURVE key that ZAP let in.
struct received {
  std::string route;
  std::string user;
  frames parts;
};

/// Belongs to one thread. LINGER is 0 (what is not sent when it closes is lost; acknowledgements
/// take care), HWM 1000 messages each way, MAXMSGSIZE the frame limit, ROUTER_MANDATORY on.
class zmq_socket {
 public:
  static base::expected<zmq_socket> open(zmq_context& context, socket_kind kind);
  ~zmq_socket();
  zmq_socket(zmq_socket&& other) noexcept;
  zmq_socket& operator=(zmq_socket&& other) noexcept;

  /// The sides of CURVE; before bind or connect.
  base::status be_curve_server(const curve_keys& keys);
  base::status be_curve_client(const curve_keys& keys, const std::string& server_public_key);

  /// A path of ipc:// beyond 107 bytes is invalid_argument (Linux would cut it), as is what is
  /// no tcp://HOST:PORT (base/endpoint.hpp). An address of IPv6 stands in brackets; names are those
  /// of IPv4.
  base::status bind(const std::string& endpoint);
  base::status connect(const std::string& endpoint);
  /// Where it is bound, with the port that tcp://…:* got.
  [[nodiscard]] std::string endpoint() const;

  /// The next message, or nothing. One with more than `max_frames` frames is read to its end and
  /// comes with its first frames only, too many to decode.
  base::expected<std::optional<received>> receive();
  /// `route` is empty but for ROUTERs.
  base::expected<send_outcome> send(const std::string& route, const frames& parts);

  /// Closing waits in the background for so long until what was sent is on its way.
  void linger(int milliseconds);

  [[nodiscard]] void* handle() const { return handle_; }

 private:
  zmq_socket(void* handle, socket_kind kind) : handle_(handle), kind_(kind) {}
  void* handle_ = nullptr;
  socket_kind kind_ = socket_kind::dealer;
};

/// Waits until a socket has a message, `event_fd` (-1: none) is readable, or `timeout_ms` have
/// passed (-1: for ever); a signal ends the wait, too.
struct poll_result {
  bool socket = false;
  bool event = false;
};
poll_result wait_for(std::span<const zmq_socket> sockets, int event_fd, long timeout_ms);
inline poll_result wait_for(const zmq_socket& socket, int event_fd, long timeout_ms) {
  return wait_for(std::span(&socket, 1), event_fd, timeout_ms);
}

}  // namespace quern::env
