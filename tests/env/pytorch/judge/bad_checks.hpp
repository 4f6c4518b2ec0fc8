// Whether bad candidates get the verdicts that are right.
#pragma once

#include <algorithm>

#include "bad_candidates.hpp"
#include "modules_fixture.hpp"

namespace quern::test::modules {

inline void check_caught(const std::vector<bad_candidate>& candidates) {
  for (const bad_candidate& one : candidates) {
    const verdict v = judged(one.source);
    CAPTURE(one.name);
    CAPTURE(name_of(v.kind));
    CAPTURE(v.reason);
    CAPTURE(v.detail);
    CHECK(std::find(one.caught.begin(), one.caught.end(), v.kind) != one.caught.end());
    CHECK(contains(v.detail, one.said));
    if (!one.reason.empty()) CHECK(v.reason == one.reason);
    CHECK_FALSE(v.speedup_e2.has_value());
  }
}

}  // namespace quern::test::modules
