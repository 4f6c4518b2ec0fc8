// What the second clock of a window says (env/gpu/window_clocks.hpp).
#include "env/gpu/window_clocks.hpp"
#include "env/runner/gpu_protocol.hpp"
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

TEST_CASE("No message of a process that sleeps is credited to others") {
  env::window_clocks clocks;
  auto sleepy = trusted_window(10);
  sleepy.wall_ns += 400'000;
  for (int i = 0; i < 5; ++i)
    clocks.learn(sleepy);
  CHECK(clocks.message_ns() == doctest::Approx(100'000));
}

TEST_CASE(
    "a runner looks for the next question behind what prepares calls, and sleeps behind calls") {
  using env::runner::awake_behind;
  using env::runner::command;
  using env::runner::gpu_window_request;
  for (const command what : {command::gpu_import, command::gpu_load, command::gpu_tensors,
                             command::gpu_program, command::gpu_call})
    CHECK(awake_behind(what, 8) > 0);
  CHECK(awake_behind(command::gpu_window, gpu_window_request::bytes_for(0)) > 0);
  // Others are measured meanwhile.
  CHECK(awake_behind(command::gpu_window, gpu_window_request::bytes_for(3)) == 0);
  CHECK(awake_behind(command::gpu_deliver, 0) == 0);
  CHECK(awake_behind(command::gpu_open, 8) == 0);
}
