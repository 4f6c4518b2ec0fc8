// The static screen of lane `cpp`: rules that can be read off the text.
#pragma once

#include <optional>
#include <string_view>

#include "env/screen/screen_finding.hpp"

namespace quern::env {

/// The first rule of lane `cpp` that the source breaks, in order of lines; none: it may be
/// compiled. Pure; linear in the text.
std::optional<screen_finding> screen_cpp(std::string_view source);

}  // namespace quern::env
