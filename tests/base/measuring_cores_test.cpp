// What this process starts keeps off the cores on which it measures.
#include "base/measuring_cores.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include "support/test.hpp"

using namespace quern;

namespace {

std::vector<int> cores_of_this_thread() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  REQUIRE(sched_getaffinity(0, sizeof cores, &cores) == 0);
  std::vector<int> found;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(static_cast<std::size_t>(c), &cores)) found.push_back(c);
  return found;
}

bool is_among(int core, const std::vector<int>& cores) {
  return std::find(cores.begin(), cores.end(), core) != cores.end();
}

}  // namespace

TEST_CASE("a thread keeps off cores that measure, with what it starts, and comes back") {
  const auto all = cores_of_this_thread();
  if (all.size() < 2) return test::skip("there is one core");
  CHECK_FALSE(base::cores_beside_measuring());
  {
    const base::off_measuring_cores unneeded;
    CHECK(cores_of_this_thread() == all);
  }
  {
    const base::measuring_core measures(all.back()), again(all.back());
    const base::off_measuring_cores beside;
    const auto left = cores_of_this_thread();
    CHECK(left.size() == all.size() - 1);
    CHECK_FALSE(is_among(all.back(), left));
    std::vector<int> started;
    std::thread([&] { started = cores_of_this_thread(); }).join();
    CHECK(started == left);
  }
  CHECK(cores_of_this_thread() == all);
  CHECK_FALSE(base::cores_beside_measuring());
}

TEST_CASE("where all cores measure, nobody keeps off them") {
  const auto all = cores_of_this_thread();
  std::vector<base::measuring_core> measure;
  for (const int core : all)
    measure.emplace_back(core);
  CHECK_FALSE(base::cores_beside_measuring());
  const base::off_measuring_cores beside;
  CHECK(cores_of_this_thread() == all);
}
