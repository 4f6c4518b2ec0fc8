// The decisions of tools/benchmarks/bench_soak, whose cases are beside this file; a soak itself
// takes hours.
#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "support/test.hpp"

using namespace quern;
using base::operator""_s;

TEST_CASE(
    "a soak hits each kind often enough, and a ledger that is torn or loses samples fails it") {
  const auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const auto log = folder->path() / "log";
  auto child = base::subprocess::start(
      {.argv = {"/usr/bin/env", "python3",
                (test::source_dir() / "tests/tools/bench_soak_cases.py").string(),
                test::source_dir().string(), folder->path().string()},
       .log = log});
  REQUIRE(child);
  const auto end = child->wait(60_s);
  CAPTURE(base::read_file(log).value_or(""));
  REQUIRE(end);
  CHECK(end->signal == 0);
  CHECK(end->code == 0);
}
