// The decisions of tools/benchmarks/bench_optimize, whose cases are beside this file; a benchmark
// itself takes an hour.
#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "support/test.hpp"

using namespace quern;
using base::operator""_s;

TEST_CASE("searches are compared in pairs, made once, and a gain that is not sure is none") {
  const auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const auto log = folder->path() / "log";
  auto child = base::subprocess::start(
      {.argv = {"/usr/bin/env", "python3",
                (test::source_dir() / "tests/tools/bench_optimize_cases.py").string(),
                test::source_dir().string(), folder->path().string()},
       .log = log});
  REQUIRE(child);
  const auto end = child->wait(120_s);
  CAPTURE(base::read_file(log).value_or(""));
  REQUIRE(end);
  CHECK(end->signal == 0);
  CHECK(end->code == 0);
}
