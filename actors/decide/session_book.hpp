// Which evaluator hosts are alive, and which life of theirs a frame belongs to.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/decide/ids.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// Who sends: the connection that carried the frame and the key that the connection proved to own.
/// `route` is the ROUTER's name for the connection, new with each connection; `user` is the CURVE
/// public key (empty over ipc://), which the peer cannot choose. An identity that a host merely
/// states is never believed.
struct peer {
  std::string route;
  std::string user;
};

/// A lease that was taken back from a host.
struct taken_back {
  lease_id lease = 0;
  std::int64_t device = 0;
};

struct host_session {
  session_id id = 0;
  peer at;
  std::uint64_t nonce = 0;  ///< chosen by the host at each start: tells a restart from a reconnect
  nanoseconds_t last_seen = 0;
  std::vector<taken_back> cancelled;  ///< not yet answered
};

/// A session begins with HELLO and ends by BYE, by silence, or when the same host says HELLO with a
/// new nonce. A HELLO with the nonce of a living session of the same user is a reconnection: the
/// session goes on at the new connection with its leases and credit. Not thread-safe.
class session_book {
 public:
  struct limits {
    nanoseconds_t silence_ns;  ///< without a frame for so long: lost
    std::size_t sessions;      ///< the most that live at once
  };

  /// `first`: ids count from here. The incarnation goes into the upper bits as with leases.
  session_book(incarnation_id incarnation, limits bounds);

  struct greeting {
    session_id session = 0;
    bool fresh = false;               ///< false: a reconnection
    std::optional<session_id> ended;  ///< the former life of the same connection, now over
  };
  /// Errors: exhausted (too many sessions), conflict (the nonce belongs to another user).
  base::expected<greeting> hello(const peer& from, std::uint64_t nonce, nanoseconds_t now);

  /// True if the frame belongs to a living session at this very connection; it then counts as a
  /// sign of life. Otherwise it is stale: drop it. Counted.
  bool accept(session_id session, const peer& from, nanoseconds_t now);

  /// Sessions that were silent for too long; they are over.
  std::vector<session_id> expire(nanoseconds_t now);
  /// BYE or refusal; false if it was not alive.
  bool end(session_id session);

  /// A CANCEL is repeated with every heartbeat until the host has answered for the lease: with the
  /// frame that was lost, a slot of its credit would be. The list ends with the session.
  void cancel(session_id session, taken_back lease);
  void answered(session_id session, lease_id lease);

  [[nodiscard]] const host_session* find(session_id session) const;
  [[nodiscard]] std::vector<session_id> alive() const;
  [[nodiscard]] std::int64_t stale_frames() const { return stale_; }
  /// When `expire` has something to do at the earliest.
  [[nodiscard]] std::optional<nanoseconds_t> next_expiry() const;

 private:
  limits limits_;
  session_id next_;
  std::map<session_id, host_session> sessions_;
  std::unordered_map<std::string, session_id> by_route_;
  std::unordered_map<std::uint64_t, session_id> by_nonce_;
  std::int64_t stale_ = 0;
};

}  // namespace quern::actors
