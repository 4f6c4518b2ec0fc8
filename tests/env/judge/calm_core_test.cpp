// On which core is measured.
#include "env/judge/calm_core.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <sched.h>

#include "env/judge/core_lock.hpp"
#include "env/judge/core_pace.hpp"
#include "env/judge/host_lock.hpp"
#include "support/test.hpp"
#include "tests/env/judge/cloned_child.hpp"

using namespace quern;

namespace {

/// -1: it may run on several.
int only_core_of(int pid) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  REQUIRE(::sched_getaffinity(pid, sizeof cores, &cores) == 0);
  for (int c = 0; c < CPU_SETSIZE && CPU_COUNT(&cores) == 1; ++c)
    if (CPU_ISSET(c, &cores)) return c;
  return -1;
}

/// Other tests of this host may measure on a core.
constexpr double patience_s = 120;

void settle_until(env::calm_core& place, int core) {
  const base::steady_clock clock;
  const auto begin = clock.now_ns();
  do {
    place.settle();
  } while (place.core() != core && static_cast<double>(clock.now_ns() - begin) * 1e-9 < patience_s);
  CHECK(place.core() == core);
}

}  // namespace

TEST_CASE("a look says shared from a quarter above the least on") {
  std::array<base::nanoseconds_t, 200> looks{};
  std::ranges::generate(looks, env::core_pace_ns);
  const auto least = std::ranges::min(looks);
  CHECK(least > 0);
  // Another thread of this process may have seen a shorter one.
  CHECK(env::shared_looks(std::array{least / 2}) == 0);
  CHECK(env::shared_looks(std::array{10 * least}) == 1);
  CHECK(env::shared_looks(std::array{10 * least, least / 2, 10 * least}) == 2);
  CHECK(env::shared_looks({}) == 0);
}

TEST_CASE("a measurement goes to a core that nobody shares, and back when it is over") {
  const auto all = env::allowed_cores().value();
  if (all.size() < 2) return test::skip("there is one core");
  const std::array cores{all.back(), all.front()};
  const test::cloned_child child;
  int shared = -1;  // 0: all of them
  const auto is_shared = [&] { return shared == 0 || only_core_of(0) == shared - 1; };
  {
    const auto lease = env::core_lease::take(cores[0], patience_s).value();
    env::calm_core place(cores, {child.pid()}, is_shared);
    const auto goes_to = [&](int core) {
      settle_until(place, core);
      CHECK(only_core_of(0) == core);
    };
    goes_to(cores[0]);
    CHECK(only_core_of(child.pid()) == cores[0]);
    shared = cores[0] + 1;
    goes_to(cores[1]);
    CHECK(only_core_of(child.pid()) == cores[1]);
    goes_to(cores[1]);
    shared = 0;
    place.settle();
    CHECK(only_core_of(child.pid()) == place.core());
    shared = cores[1] + 1;
    goes_to(cores[0]);
    CHECK(only_core_of(child.pid()) == cores[0]);
    shared = cores[0] + 1;
    goes_to(cores[1]);
  }
  CHECK(only_core_of(0) == -1);
  CHECK(only_core_of(child.pid()) == cores[0]);
}

TEST_CASE("it does not go where somebody measures, and stays where a process cannot follow") {
  const auto all = env::allowed_cores().value();
  if (all.size() < 2) return test::skip("there is one core");
  const std::array cores{all.back(), all.front()};
  const auto lease = env::core_lease::take(cores[0], patience_s).value();
  const auto is_shared = [&] { return only_core_of(0) == cores[0]; };
  {
    // As another evaluator does: a lock is of the descriptor.
    const auto locked = env::open_host_lock(fmt::format("core-{}.busy", cores[1])).value();
    REQUIRE(env::wait_for_host_lock(locked, patience_s));
    env::calm_core place(cores, {}, is_shared);
    place.settle();
    CHECK(place.core() == cores[0]);
    env::give_back_host_lock(locked);
    settle_until(place, cores[1]);
  }
  int gone = 0;
  {
    const test::cloned_child child;
    gone = child.pid();
  }
  const test::cloned_child child;
  env::calm_core place(cores, {child.pid(), gone}, is_shared);
  place.settle();
  CHECK(place.core() == cores[0]);
  CHECK(only_core_of(0) == cores[0]);
  CHECK(only_core_of(child.pid()) != cores[1]);
}

TEST_CASE("a process that ended on a spare core leaves the other one to go back") {
  const auto all = env::allowed_cores().value();
  if (all.size() < 2) return test::skip("there is one core");
  const std::array cores{all.back(), all.front()};
  const auto lease = env::core_lease::take(cores[0], patience_s).value();
  const test::cloned_child stays;
  {
    auto ends = std::make_optional<test::cloned_child>();
    env::calm_core place(cores, {stays.pid(), ends->pid()},
                         [&] { return only_core_of(0) == cores[0]; });
    settle_until(place, cores[1]);
    CHECK(only_core_of(stays.pid()) == cores[1]);
    ends.reset();
  }
  CHECK(only_core_of(0) == cores[0]);
  CHECK(only_core_of(stays.pid()) == cores[0]);
}

TEST_CASE("with one core a measurement stays, however shared it is") {
  const std::array cores{env::allowed_cores().value().back()};
  const auto lease = env::core_lease::take(cores[0], patience_s).value();
  env::calm_core place(cores, {}, [] { return true; });
  place.settle();
  CHECK(place.core() == cores[0]);
  CHECK(only_core_of(0) == cores[0]);
}

TEST_CASE("an evaluator takes spare cores only where most are free") {
  CHECK(env::spare_cores(16, 15, 2) == 2);
  CHECK(env::spare_cores(16, 10, 2) == 2);
  CHECK(env::spare_cores(16, 9, 2) == 0);
  CHECK(env::spare_cores(8, 7, 2) == 2);
  CHECK(env::spare_cores(7, 7, 2) == 0);
  CHECK(env::spare_cores(16, 15, 0) == 0);
  // Those that are chosen are this process's own: a second choice has others, or shares the last.
  const auto first = env::core_choice::choose(-1, 2).value();
  const auto second = env::core_choice::choose(-1, 2).value();
  CHECK(first.cores().size() <= 3);
  CHECK(first.cores().front() == first.core());
  for (const int core : second.cores().subspan(1))
    CHECK(std::ranges::find(first.cores(), core) == first.cores().end());
}
