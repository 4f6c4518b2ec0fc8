// The part of lane `cpp`'s static screen that reads declarations: what is declared elsewhere, and
// pointers that outlive a call.
#pragma once

#include <optional>
#include <span>

#include "env/screen/lexer.hpp"
#include "env/screen/screen_finding.hpp"

namespace quern::env {

/// `program` without preprocessor lines. The first declaration that breaks rule `external` or
/// `kept_pointer`. Linear in the number of tokens.
std::optional<screen_finding> screen_declarations(std::span<const token> program);

}  // namespace quern::env
