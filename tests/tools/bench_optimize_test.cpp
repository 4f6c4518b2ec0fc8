// The decisions of tools/benchmarks/bench_optimize, whose cases are beside this file; a benchmark
// itself takes an hour.
#include "tools/python_cases.hpp"

using namespace quern;
using base::operator""_s;

TEST_CASE("searches are compared in pairs, made once, and a gain that is not sure is none") {
  test::run_python_cases("bench_optimize_cases.py", 120_s);
}
