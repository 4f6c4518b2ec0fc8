// Locks among the processes of a host: where they are, and who shares them.
#include "env/judge/host_lock.hpp"

#include <cstdlib>
#include <optional>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "env/judge/core_lock.hpp"
#include "env/judge/recently_used.hpp"
#include "support/test.hpp"
#include "tests/env/judge/cloned_child.hpp"

using namespace quern;

namespace {

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
  constexpr double patience_s = 30;
  const int core = env::allowed_cores().value().front();
  auto mine = std::make_optional(env::core_lease::take(core, patience_s).value());
  const test::cloned_child child;
  mine.reset();
  CHECK(env::core_lease::take(core, patience_s).has_value());
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
