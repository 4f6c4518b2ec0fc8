// Of these cases one skips and one fails: this program must fail, or a skip hides failures.
// `tools/count_cases
// --self-test` runs them one by one: they end in every way that a case can.

#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include <unistd.h>

#include "support/test.hpp"

using quern::test::skip;

TEST_CASE("skips") {
  skip("nothing to do");
}

TEST_CASE("fails") {
  CHECK(1 + 1 == 3);
}

TEST_CASE("passes") {
  CHECK(1 + 1 == 2);
}

TEST_CASE("fails, then skips") {
  CHECK(1 + 1 == 3);
  skip("too late");
}

TEST_CASE("skips in one subcase of two") {
  SUBCASE("one") {
    CHECK(1 + 1 == 2);
  }
  SUBCASE("other") {
    skip("half of it");
  }
}

TEST_CASE("skips in a thread, twice for one reason") {
  std::thread([] { skip("from a thread"); }).join();
  skip("from a thread");
  CHECK(1 + 1 == 2);
}

TEST_CASE("checks nothing") {}

TEST_CASE("is left out by a decorator" * doctest::skip()) {
  CHECK(1 + 1 == 2);
}

TEST_CASE("ends as it is asked to") {
  const char* asked = std::getenv("QUERN_CANARY_END");
  const std::string end = asked != nullptr ? asked : "";
  if (end == "throw") throw 1;
  if (end == "crash") std::raise(SIGSEGV);
  if (end == "kill") std::raise(SIGKILL);
  if (end == "leave") ::_exit(0);
  skip("no end is asked for");
}
