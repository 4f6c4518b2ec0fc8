// On which core is measured, and which pairs count.
#include "env/judge/calm_core.hpp"

#include <algorithm>
#include <array>

#include <sched.h>

#include "env/judge/core_lock.hpp"
#include "env/judge/core_pace.hpp"
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

}  // namespace

TEST_CASE("a pace is that of a core of its own up to a quarter more than the least") {
  std::array<base::nanoseconds_t, 200> paces{};
  std::ranges::generate(paces, env::core_pace_ns);
  const auto least = std::ranges::min(paces);
  CHECK(least > 0);
  // Another thread of this process may have seen a shorter one.
  CHECK(env::shared_part(std::array{least / 2}) == 0);
  CHECK(env::shared_part(std::array{10 * least}) == 1);
  CHECK(env::shared_part(std::array{10 * least, least / 2, least / 2, 10 * least}) == 0.5);
  CHECK(env::shared_part({}) == 0);
}

TEST_CASE("pairs on a shared core do not count, unless most are on one") {
  constexpr double calm = 0, shared = 1;
  env::calm_pairs pairs;
  CHECK(pairs.counts(shared));  // nothing better is known
  for (int i = 0; i < 9; ++i)
    pairs.saw(calm);
  CHECK_FALSE(pairs.counts(shared));
  CHECK(pairs.counts(calm));
  CHECK(pairs.counts(0.25));
  CHECK_FALSE(pairs.counts(0.26));
  // Of the last sixteen: eight of each is not most.
  for (int i = 0; i < 7; ++i)
    pairs.saw(shared);
  CHECK_FALSE(pairs.counts(shared));
  pairs.saw(shared);
  CHECK(pairs.counts(shared));
  CHECK(pairs.counts(calm));
  for (int i = 0; i < 100; ++i)
    pairs.saw(shared);
  for (int i = 0; i < 8; ++i)
    pairs.saw(calm);
  CHECK(pairs.counts(shared));
  pairs.saw(calm);
  CHECK_FALSE(pairs.counts(shared));
}

TEST_CASE("a measurement goes to a core that nobody shares, and back when it is over") {
  const auto all = env::allowed_cores().value();
  if (all.size() < 2) return test::skip("there is one core");
  const std::array cores{all.back(), all.front()};
  const test::cloned_child child;
  int shared = -1;  // 0: all of them
  const auto is_shared = [&] { return shared == 0 || only_core_of(0) == shared - 1; };
  {
    const auto lease = env::core_lease::take(cores[0], 30).value();
    env::calm_core place(cores, {child.pid()}, is_shared);
    const auto goes_to = [&](int core) {
      place.settle();
      CHECK(place.core() == core);
      CHECK(only_core_of(0) == core);
    };
    goes_to(cores[0]);
    CHECK(only_core_of(child.pid()) == -1);  // nothing moved
    shared = cores[0] + 1;
    goes_to(cores[1]);
    CHECK(only_core_of(child.pid()) == cores[1]);
    goes_to(cores[1]);
    shared = 0;
    goes_to(cores[1]);
    shared = cores[1] + 1;
    goes_to(cores[0]);
    CHECK(only_core_of(child.pid()) == cores[0]);
    shared = cores[0] + 1;
    goes_to(cores[1]);
  }
  CHECK(only_core_of(0) == -1);
  CHECK(only_core_of(child.pid()) == cores[0]);
}

TEST_CASE("with one core a measurement stays, however shared it is") {
  const std::array cores{env::allowed_cores().value().back()};
  const auto lease = env::core_lease::take(cores[0], 30).value();
  env::calm_core place(cores, {}, [] { return true; });
  place.settle();
  CHECK(place.core() == cores[0]);
  CHECK(only_core_of(0) == cores[0]);
}

TEST_CASE("an evaluator takes spare cores only where most are free") {
  CHECK(env::spare_cores(16, 15, 2) == 2);
  CHECK(env::spare_cores(16, 8, 2) == 2);
  CHECK(env::spare_cores(16, 7, 2) == 0);
  CHECK(env::spare_cores(8, 4, 5) == 4);
  CHECK(env::spare_cores(7, 7, 2) == 0);
  CHECK(env::spare_cores(16, 15, 0) == 0);
  // Those that are chosen are this process's own: a second choice has others, or shares the last.
  const auto all = env::allowed_cores().value();
  const auto first = env::core_choice::choose(-1, 2).value();
  const auto second = env::core_choice::choose(-1, 2).value();
  CHECK(first.cores().size() <= 3);
  CHECK(first.cores().front() == first.core());
  for (const int core : second.cores().subspan(1))
    CHECK(std::ranges::find(first.cores(), core) == first.cores().end());
  if (all.size() >= 16) CHECK(first.core() != second.core());
}
