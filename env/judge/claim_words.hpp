// How the speed-up that a verdict claims follows from what was measured, for a person.
#pragma once

#include <string>

#include "env/verdict/verdict.hpp"

namespace quern::env {

/// One clause: "what was measured, rounded toward 1". Empty where the verdict claims nothing, has
/// no interval, or was measured by a protocol with a rule of its own (docs/measuring.md).
std::string claim_words(const verdict& v);

}  // namespace quern::env
