// What the second clock of a window says (env/gpu/window_clocks.hpp).
#include <initializer_list>

#include "env/gpu/window_clocks.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

/// Calls of 20 us by events with 50 us around each, 100 us to queue and 10 of them for the first
/// call, 50 us of messages.
env::window_times trusted_window(std::size_t calls) {
  env::window_times t;
  t.call_ns.assign(calls, 20'000);
  t.inside.start_ns = 10'000;
  t.inside.queue_ns = 100'000;
  t.inside.run_ns = calls * 70'000;
  t.wall_ns = static_cast<base::nanoseconds_t>(t.inside.run_ns + t.inside.queue_ns + 50'000);
  return t;
}

/// The same calls of a process that is not trusted: it queues while the device runs, and says
/// nothing but its events.
env::window_times other_window(std::size_t calls, std::uint32_t events_ns, std::int64_t true_ns) {
  env::window_times t;
  t.call_ns.assign(calls, events_ns);
  t.inside = {1, 1, 1};
  t.wall_ns = static_cast<base::nanoseconds_t>(calls) * (50'000 + true_ns) + 60'000;
  return t;
}

env::window_charges charges_of(bool gated, std::initializer_list<double> beyond) {
  env::window_charges charges(gated);
  for (const double ns : beyond)
    charges.add(ns);
  return charges;
}

}  // namespace

TEST_CASE("An honest window shows nothing beyond its events, whatever its calls take") {
  env::window_clocks clocks;
  CHECK_FALSE(clocks.knows());
  for (int i = 0; i < 3; ++i)
    clocks.learn(trusted_window(10));
  CHECK(clocks.knows());
  CHECK(clocks.around_ns() == doctest::Approx(50'000));
  CHECK(clocks.message_ns() == doctest::Approx(60'000));
  CHECK(clocks.beyond(other_window(10, 20'000, 20'000)) == doctest::Approx(0));
  CHECK(clocks.beyond(other_window(4, 300'000, 300'000)) == doctest::Approx(0));
  CHECK(clocks.beyond_inside(trusted_window(7)) == doctest::Approx(0));
}

TEST_CASE("What the events hide is found, however little is queued ahead") {
  env::window_clocks clocks;
  clocks.learn(trusted_window(10));
  CHECK(clocks.beyond(other_window(10, 1'000, 20'000)) == doctest::Approx(19'000));
  // What launching takes the trusted side is nobody's to hide in.
  CHECK(clocks.beyond(other_window(10, 20'000, 25'000)) == doctest::Approx(5'000));
}

TEST_CASE("What the process says of its own clock moves nothing") {
  env::window_clocks clocks;
  clocks.learn(trusted_window(10));
  auto lying = other_window(10, 1'000, 20'000);
  const double honest = clocks.beyond(lying);
  lying.inside = {0, 4'000'000'000, 4'000'000'000};
  CHECK(clocks.beyond(lying) == honest);
}

TEST_CASE("One window in which a process woke late does not move what is usual") {
  env::window_clocks clocks;
  for (int i = 0; i < 6; ++i)
    clocks.learn(trusted_window(10));
  auto late = trusted_window(10);
  late.inside.run_ns += 3'000'000;
  late.wall_ns += 9'000'000;
  clocks.learn(late);
  CHECK(clocks.around_ns() == doctest::Approx(50'000));
  CHECK(clocks.message_ns() == doctest::Approx(60'000));
}

TEST_CASE("What all windows show beyond half a microsecond and a fiftieth is charged to each") {
  const auto quiet = charges_of(false, {-300, 200, 400, -100, 300});
  for (std::size_t i = 0; i < 5; ++i)
    CHECK(quiet.of(i, 20'000, 10, 50'000) == 0);
  // Those before it is known too.
  const auto hides_in_the_slack = charges_of(false, {4'000, 4'200, 3'900, 4'100, 4'050});
  for (std::size_t i = 0; i < 5; ++i)
    CHECK(hides_in_the_slack.of(i, 1'000, 25, 50'000) ==
          doctest::Approx(4'050 - 520.0 * 520 / 4'050));
  // Too few to know.
  const auto few = charges_of(false, {4'000, 4'200, 3'900, 4'100});
  CHECK(few.of(0, 1'000, 25, 50'000) == 0);
}

TEST_CASE("Nothing jumps where what is forgiven ends") {
  const auto just_in = charges_of(false, {900, 900, 900, 900, 900});
  CHECK(just_in.of(0, 20'000, 10, 50'000) == 0);
  const auto just_out = charges_of(false, {901, 901, 901, 901, 901});
  CHECK(just_out.of(0, 20'000, 10, 50'000) > 0);
  CHECK(just_out.of(0, 20'000, 10, 50'000) < 3);
}

TEST_CASE("What is charged follows the windows that are added, and forgets") {
  auto charges = charges_of(false, {0, 0, 0, 0, 0});
  CHECK(charges.of(0, 1'000, 25, 0) == 0);
  for (int i = 0; i < 6; ++i)
    charges.add(4'000);
  CHECK(charges.of(0, 1'000, 25, 0) == doctest::Approx(4'000 - 520.0 * 520 / 4'000));
  charges.forget();
  CHECK(charges.beyond().empty());
  charges.add(100);
  CHECK(charges.of(0, 1'000, 25, 0) == 0);
}

TEST_CASE("A plan is charged only where its runner's clock contradicts its events") {
  const auto honest = charges_of(true, {-900, 2'000, 15'000, 3'000, 1'000, -4'000});
  CHECK(honest.of(0, 20'000, 10, 50'000) == 0);
  const auto forged = charges_of(true, {59'000, 60'000, 61'000, 60'000, 60'000});
  CHECK(forged.of(0, 1'000, 10, 50'000) == doctest::Approx(60'000));
  // Of a long call a quarter may be anybody's.
  CHECK(forged.of(0, 400'000, 10, 50'000) == 0);
  // Nor a twentieth of much content.
  CHECK(forged.of(0, 1'000, 10, 1'500'000) == 0);
  CHECK(charges_of(true, {59'000, 60'000, 61'000, 60'000}).of(0, 1'000, 10, 50'000) == 0);
}

TEST_CASE("One window in which a process woke late is not charged, one that hides much is") {
  CHECK(charges_of(false, {100, 200, 150, 7'900}).of(3, 20'000, 10, 50'000) == 0);
  const auto hidden = charges_of(false, {100, 200, 60'000, 150});
  CHECK(hidden.of(2, 20'000, 10, 50'000) == doctest::Approx(60'000 - 8'000.0 * 8'000 / 60'000));
  CHECK(hidden.of(3, 20'000, 10, 50'000) == 0);
}

TEST_CASE("Of trusted windows the latest are remembered") {
  env::window_clocks clocks;
  for (int i = 0; i < 600; ++i)
    clocks.learn(trusted_window(10));
  auto slower = trusted_window(10);
  slower.inside.run_ns += 100'000;
  for (int i = 0; i < 400; ++i)
    clocks.learn(slower);
  CHECK(clocks.around_ns() == doctest::Approx(60'000));
}

TEST_CASE(
    "A baseline that waits for the device opens its gate late, which says nothing of others") {
  env::window_clocks clocks(60e6);
  for (int i = 0; i < 5; ++i) {
    // Every call waits: nearly all has run when the gate is opened.
    auto waits = trusted_window(10);
    waits.call_ns.assign(10, 200'000);
    waits.inside.queue_ns = 62'000'000;
    waits.inside.run_ns = 5'000;
    waits.wall_ns = 62'100'000;
    clocks.learn(waits);
  }
  CHECK(clocks.around_ns() > 0);
  auto honest = trusted_window(10);
  CHECK(clocks.beyond_inside(honest) < 0);
  // One that lets its own gate time out is seen by the other clock.
  auto hidden = honest;
  env::window_clocks usual(60e6);
  for (int i = 0; i < 5; ++i)
    usual.learn(honest);
  hidden.inside.queue_ns = 61'000'000;
  hidden.inside.run_ns = 1'000;
  hidden.wall_ns = 61'000'000;
  CHECK(usual.beyond_inside(hidden) > 5e6);
}

TEST_CASE("A trusted runner without a clock of its own stands with its whole window") {
  env::window_clocks clocks;
  auto mute = trusted_window(10);
  mute.inside = {};
  clocks.learn(mute);
  CHECK(clocks.around_ns() == doctest::Approx(50'000 + 15'000));
  CHECK(clocks.message_ns() == 0);
  CHECK(clocks.beyond(other_window(10, 20'000, 20'000)) < 0);
}
