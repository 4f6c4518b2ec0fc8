// `cost_model/1`: a speed-up that is a pure function of (task, source), for runs that must repeat
// bit by bit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "env/measure/measure_name.hpp"

namespace quern::env {

/// Speed-up x 100 under cost_model/1. Over the tokens of the canonical source:
///
///   cost = 100 + 40 * max(0, loops - 2) + 25 * doubles + 10 * divisions - 15 * [restrict]
///          - 20 * [vector intrinsics] - 10 * [pragma] + (hash(task, source) mod 16)
///   speedup_e2 = clamp(100 * 130 / max(cost, 20), 10, 1000)
///
/// loops: `for` and `while`; doubles: the word `double`; divisions: `/` and `/=` (at most 8 count);
/// restrict: `__restrict__` or `__restrict`; vector intrinsics: an identifier that begins with _mm;
/// pragma: a #pragma line. It rewards what often is fast, has many values, and says nothing about
/// any machine.
std::int64_t cost_model_e2(const std::string& task_id, std::string_view source);

}  // namespace quern::env
