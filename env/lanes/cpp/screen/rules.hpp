// The closed lists that the static screen of lane `cpp` goes by, beside those of
// common_rules.hpp.
#pragma once

#include <string>
#include <string_view>

#include "env/screen/lexer.hpp"

namespace quern::env::rules {

/// `text` as written in the include: <cmath>, not "cmath".
bool is_prelude_header(std::string_view text);
std::string prelude_header_names();

/// What common_rules.hpp knows of pragmas, for a person.
std::string_view pragma_names();

/// What would make a macro more than a constant, type or qualifier.
bool is_forbidden_in_constant(const token& item);

}  // namespace quern::env::rules
