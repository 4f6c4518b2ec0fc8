// The header that stands before every candidate of lane `cpp`: which headers it includes, as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quern::env {

/// Headers that the prelude includes: the only ones a candidate may name in an #include.
const std::vector<std::string>& prelude_headers();

/// The prelude: one #include a line, intrinsics where the architecture has them, without the
/// special functions of C++17's <cmath>. Part of the environment's fingerprint.
const std::string& prelude_text();

}  // namespace quern::env
