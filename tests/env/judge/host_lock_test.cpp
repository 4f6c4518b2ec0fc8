// Locks among the processes of a host: where they are, and who shares them.
#include "env/judge/host_lock.hpp"

#include <cstdlib>
#include <optional>
#include <string>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "env/judge/core_lock.hpp"
#include "env/judge/recently_used.hpp"
#include "support/may_come_first.hpp"
#include "support/test.hpp"
#include "tests/env/judge/cloned_child.hpp"

using namespace quern;

namespace {

std::vector<int> cores_of_this_thread() {
  return env::allowed_cores().value();
}

int nice_of(int pid) {
  return getpriority(PRIO_PROCESS, static_cast<id_t>(pid));
}

/// The same file, whatever name it was opened by.
bool are_one(const base::unique_fd& left, const base::unique_fd& right) {
  struct stat a {
  }, b{};
  REQUIRE(fstat(left.get(), &a) == 0);
  REQUIRE(fstat(right.get(), &b) == 0);
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

std::string name_of_this_test() {
  return fmt::format("test-{}", ::getpid());
}

}  // namespace

TEST_CASE("a lock is where it is, whatever TMPDIR says") {
  const auto first = env::open_host_lock(name_of_this_test()).value();
  const auto folder = base::temp_folder::make("quern-lock-test").value();
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("TMPDIR", folder.path().c_str(), 1);
  const auto second = env::open_host_lock(name_of_this_test()).value();
  before != nullptr ? ::setenv("TMPDIR", kept.c_str(), 1) : ::unsetenv("TMPDIR");
  CHECK(are_one(first, second));
  CHECK(env::try_host_lock(first));
  CHECK_FALSE(env::try_host_lock(second));
  std::error_code ignored;
  std::filesystem::remove(env::host_lock_folder() / ("quern-" + name_of_this_test()), ignored);
}

TEST_CASE("a core's lease that is over is over, whoever is being cloned meanwhile") {
  // Others may measure on the core.
  constexpr double patience_s = 120;
  const int core = env::allowed_cores().value().front();
  auto mine = std::make_optional(env::core_lease::take(core, patience_s).value());
  const test::cloned_child child;
  mine.reset();
  CHECK(env::core_lease::take(core, patience_s).has_value());
}

TEST_CASE("who watches a core that was chosen keeps off it and comes first, until it is over") {
  const auto all = cores_of_this_thread();
  if (all.size() < 2) return test::skip("there is one core");
  const int before = nice_of(0), first = test::may_come_first() ? -15 : before;
  {
    auto chosen = std::make_optional(env::core_choice::choose(all.back()).value());
    const env::core_choice moved = std::move(*chosen);
    chosen.reset();
    {
      const env::watching_thread watching;
      const std::vector<int> others(all.begin(), all.end() - 1);
      CHECK(cores_of_this_thread() == others);
      CHECK(nice_of(0) == first);
    }
    CHECK(cores_of_this_thread() == all);
    CHECK(nice_of(0) == before);
    CHECK(base::cores_beside_measuring().has_value());
  }
  CHECK_FALSE(base::cores_beside_measuring());
  {
    const auto lease = env::core_lease::take(all.back(), 120).value();
    CHECK(cores_of_this_thread() == std::vector<int>{all.back()});
    CHECK(nice_of(0) == first);
  }
  CHECK(cores_of_this_thread() == all);
  CHECK(nice_of(0) == before);
}

TEST_CASE("a process comes first as long as it is wanted") {
  const test::cloned_child child;
  const int before = nice_of(child.pid());
  {
    const env::coming_first first(child.pid());
    CHECK(nice_of(child.pid()) == (test::may_come_first() ? -15 : before));
  }
  CHECK(nice_of(child.pid()) == before);
}

TEST_CASE("of many things those asked for last are kept") {
  env::recently_used<int> few(3);
  for (int i = 0; i < 3; ++i)
    few.add(std::to_string(i), i);
  REQUIRE(few.find("0") != nullptr);
  few.add("3", 3);
  CHECK(few.find("1") == nullptr);
  for (const char* name : {"0", "2", "3"})
    CHECK(few.find(name) != nullptr);
  for (int i = 4; i < 10'000; ++i)
    few.add(std::to_string(i), i);
  CHECK(few.size() == 3);
  CHECK(*few.find("9999") == 9999);
}
