// Sessions by id, by connection and by nonce.
#include "actors/decide/session_book.hpp"

#include <algorithm>

#include "actors/decide/mutation.hpp"

namespace quern::actors {

using base::errc;
using base::fail;

session_book::session_book(incarnation_id incarnation, limits bounds)
    : limits_(bounds), next_(first_lease(incarnation)) {}

base::expected<session_book::greeting> session_book::hello(const peer& from, std::uint64_t nonce,
                                                           nanoseconds_t now) {
  const auto known = by_nonce_.find(nonce);
  if (known != by_nonce_.end()) {
    auto& session = sessions_.at(known->second);
    if (session.at.user != from.user) {
      return fail(errc::conflict, "nonce {:016x} belongs to a session of another key", nonce);
    }
    greeting again{session.id, false, std::nullopt};
    if (const auto other = by_route_.find(from.route);
        other != by_route_.end() && other->second != session.id) {
      again.ended = other->second;
      end(other->second);
    }
    by_route_.erase(session.at.route);
    session.at = from;
    session.last_seen = now;
    by_route_[from.route] = session.id;
    return again;
  }
  greeting result;
  if (const auto former = by_route_.find(from.route); former != by_route_.end()) {
    if (mutated(mutation::session_nonce_ignored)) {
      return greeting{former->second, false, std::nullopt};
    }
    result.ended = former->second;
    end(former->second);
  }
  if (sessions_.size() >= limits_.sessions) {
    return fail(errc::exhausted, "{} sessions are open, the limit", sessions_.size());
  }
  result.session = ++next_;
  result.fresh = true;
  sessions_.emplace(result.session, host_session{result.session, from, nonce, now, {}});
  by_route_[from.route] = result.session;
  by_nonce_[nonce] = result.session;
  return result;
}

bool session_book::accept(session_id session, const peer& from, nanoseconds_t now) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || found->second.at.route != from.route ||
      found->second.at.user != from.user) {
    ++stale_;
    return false;
  }
  found->second.last_seen = now;
  return true;
}

std::vector<session_id> session_book::expire(nanoseconds_t now) {
  std::vector<session_id> over;
  for (const auto& [id, session] : sessions_) {
    if (now - session.last_seen >= limits_.silence_ns) over.push_back(id);
  }
  for (const auto id : over)
    end(id);
  return over;
}

bool session_book::end(session_id session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return false;
  by_route_.erase(found->second.at.route);
  by_nonce_.erase(found->second.nonce);
  sessions_.erase(found);
  return true;
}

void session_book::cancel(session_id session, taken_back lease) {
  if (const auto found = sessions_.find(session); found != sessions_.end()) {
    found->second.cancelled.push_back(lease);
  }
}

void session_book::answered(session_id session, lease_id lease) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  std::erase_if(found->second.cancelled, [&](const taken_back& c) { return c.lease == lease; });
}

const host_session* session_book::find(session_id session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : &found->second;
}

std::vector<session_id> session_book::alive() const {
  std::vector<session_id> ids;
  for (const auto& [id, session] : sessions_)
    ids.push_back(id);
  return ids;
}

std::optional<nanoseconds_t> session_book::next_expiry() const {
  std::optional<nanoseconds_t> earliest;
  for (const auto& [id, session] : sessions_) {
    const auto at = session.last_seen + limits_.silence_ns;
    if (!earliest || at < *earliest) earliest = at;
  }
  return earliest;
}

}  // namespace quern::actors
