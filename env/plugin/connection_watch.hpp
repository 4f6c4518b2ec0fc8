// Why a host has no gateway: what libzmq tells of its attempts to connect, and the causes that fit.
#pragma once

#include <optional>
#include <string>

#include "base/status.hpp"
#include "env/plugin/zmq_socket.hpp"

namespace quern::env {

/// What happened to a connection, as libzmq's monitor tells it.
enum class connection_event {
  connected,   ///< somebody accepted; the handshake begins
  handshaken,  ///< both sides have proved their keys
  refused,     ///< the gateway does not admit this host's key (ZAP)
  cut,         ///< the handshake ended otherwise
  retried      ///< the attempt or connection is over, another attempt follows
};

/// The attempts so far. Not thread-safe.
class connection_story {
 public:
  /// `public_key` is this host's; empty over ipc://.
  connection_story(std::string endpoint, std::string public_key);
  void note(connection_event what);

  /// The causes that fit, and what to do, as one clause.
  [[nodiscard]] std::string cause() const;
  /// The cause, where attempts have failed for it and it was not told since the last other one.
  std::optional<std::string> news();

 private:
  enum class state { unanswered, unheard, accepted, cut, refused, handshaken };
  std::string endpoint_;
  std::string public_key_;
  state now_ = state::unanswered;
  state told_ = state::unanswered;
  bool accepted_ = false;  ///< in this attempt
};

/// The events of one socket, from its start on. Belongs to the socket's thread and must be
/// destroyed before the socket.
class connection_watch {
 public:
  /// Before the socket connects. Error: io.
  static base::expected<connection_watch> start(zmq_context& context, zmq_socket& watched);
  ~connection_watch();
  connection_watch(connection_watch&& other) noexcept;
  connection_watch& operator=(connection_watch&&) = delete;

  /// Adds what has happened since the last call. Never blocks; to be called often, since libzmq
  /// waits where a thousand events are left unread.
  void read(connection_story& story);

 private:
  connection_watch(void* watched, void* events) : watched_(watched), events_(events) {}
  void* watched_ = nullptr;
  void* events_ = nullptr;
};

}  // namespace quern::env
