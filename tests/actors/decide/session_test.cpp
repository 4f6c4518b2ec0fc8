// Sessions: connections, nonces, silence.
#include "actors/decide/session_book.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;

session_book fresh_sessions() {
  return {1, {5'000, 3}};
}
const peer a{"a", ""};
const peer b{"b", ""};

TEST_CASE("a new nonce is a new life, the same nonce a reconnection") {
  auto sessions = fresh_sessions();
  const auto first = sessions.hello(a, 1, 0);
  REQUIRE(first);
  CHECK(first->fresh);
  CHECK(sessions.accept(first->session, a, 10));
  // Restarted at the same connection name.
  const auto second = sessions.hello(a, 2, 20);
  REQUIRE(second);
  CHECK(second->fresh);
  CHECK(second->ended == first->session);
  CHECK_FALSE(sessions.accept(first->session, a, 30));
  // Reconnected elsewhere: the session moves, the old connection is nobody.
  const auto moved = sessions.hello(b, 2, 40);
  REQUIRE(moved);
  CHECK_FALSE(moved->fresh);
  CHECK(moved->session == second->session);
  CHECK_FALSE(sessions.accept(second->session, a, 50));
  CHECK(sessions.accept(second->session, b, 50));
  CHECK(sessions.stale_frames() == 2);
}

TEST_CASE("an identity is the key that was proved, not what is said") {
  auto sessions = fresh_sessions();
  const auto mine = sessions.hello({"a", "key1"}, 1, 0);
  REQUIRE(mine);
  const auto stolen = sessions.hello({"b", "key2"}, 1, 0);
  REQUIRE_FALSE(stolen);
  CHECK(stolen.error().code == base::errc::conflict);
  CHECK_FALSE(sessions.accept(mine->session, {"a", "key2"}, 0));
  CHECK(sessions.accept(mine->session, {"a", "key1"}, 0));
}

TEST_CASE("silence ends a session; its nonce starts another") {
  auto sessions = fresh_sessions();
  const auto first = sessions.hello(a, 1, 0);
  CHECK(sessions.next_expiry() == 5'000);
  CHECK(sessions.expire(4'999).empty());
  CHECK(sessions.accept(first->session, a, 4'999));
  CHECK(sessions.expire(9'998).empty());
  CHECK(sessions.expire(9'999) == std::vector<session_id>{first->session});
  CHECK_FALSE(sessions.next_expiry());
  const auto second = sessions.hello(a, 1, 10'000);
  CHECK(second->fresh);
  CHECK(second->session != first->session);
}

TEST_CASE("a connection that takes over another's session loses its own") {
  auto sessions = fresh_sessions();
  const auto one = sessions.hello(a, 1, 0);
  const auto two = sessions.hello(b, 2, 0);
  const auto over = sessions.hello(b, 1, 1);
  REQUIRE(over);
  CHECK(over->session == one->session);
  CHECK(over->ended == two->session);
  CHECK(sessions.alive() == std::vector<session_id>{one->session});
}

TEST_CASE("the number of sessions is bounded, and cancelled leases wait for an answer") {
  auto sessions = fresh_sessions();
  for (std::uint64_t n = 1; n <= 3; ++n)
    REQUIRE(sessions.hello({std::to_string(n), ""}, n, 0));
  const auto many = sessions.hello({"4", ""}, 4, 0);
  REQUIRE_FALSE(many);
  CHECK(many.error().code == base::errc::exhausted);
  const auto id = sessions.alive().front();
  sessions.cancel(id, {7, 0});
  sessions.cancel(id, {8, 0});
  sessions.answered(id, 7);
  REQUIRE(sessions.find(id)->cancelled.size() == 1);
  CHECK(sessions.find(id)->cancelled[0].lease == 8);
  CHECK(sessions.end(id));
  CHECK_FALSE(sessions.end(id));
  sessions.answered(id, 8);
}

TEST_CASE("session ids carry their incarnation") {
  session_book later(2, {5'000, 3});
  CHECK(incarnation_of(later.hello(a, 1, 0)->session) == 2);
}

}  // namespace
