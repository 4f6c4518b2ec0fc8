// The decisions of tools/benchmarks/bench_exemplars, whose cases are beside this file; a sweep
// itself takes an hour.
#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "support/test.hpp"

using namespace quern;
using base::operator""_s;

TEST_CASE(
    "settings of exemplars are compared over pairs, runs are made once, and bad values are "
    "refused") {
  const auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const auto log = folder->path() / "log";
  auto child = base::subprocess::start(
      {.argv = {"/usr/bin/env", "python3",
                (test::source_dir() / "tests/tools/bench_exemplars_cases.py").string(),
                test::source_dir().string(), folder->path().string()},
       .log = log});
  REQUIRE(child);
  const auto end = child->wait(120_s);
  CAPTURE(base::read_file(log).value_or(""));
  REQUIRE(end);
  CHECK(end->signal == 0);
  CHECK(end->code == 0);
}
