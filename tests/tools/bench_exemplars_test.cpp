// The decisions of tools/benchmarks/bench_exemplars, whose cases are beside this file; a sweep
// itself takes an hour.
#include "tools/python_cases.hpp"

using namespace quern;
using base::operator""_s;

TEST_CASE(
    "settings of exemplars are compared over pairs, runs are made once, and bad values are "
    "refused") {
  test::run_python_cases("bench_exemplars_cases.py", 120_s);
}
