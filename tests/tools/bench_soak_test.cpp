// The decisions of tools/benchmarks/bench_soak, whose cases are beside this file; a soak itself
// takes hours.
#include "tools/python_cases.hpp"

using namespace quern;
using base::operator""_s;

TEST_CASE(
    "a soak hits each kind often enough, and a ledger that is torn or loses samples fails it") {
  test::run_python_cases("bench_soak_cases.py", 60_s);
}
