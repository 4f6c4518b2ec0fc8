// The closed lists that the static screens of all lanes go by.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "env/screen/lexer.hpp"

namespace quern::env::rules {

/// What prompts say of C++ in every lane: what arguments are for, what the screens refuse, and the
/// precision. The first of
/// a lane's `restrictions` (env/task/lane.hpp).
std::vector<std::string> restrictions(bool lower_precision);

/// The words behind #pragma (or inside _Pragma): hints to the optimiser.
bool is_known_pragma(std::span<const token> words);

/// Keywords, reserved names, the entries: what a macro must not be called.
bool is_reserved_macro_name(std::string_view name);

bool is_assembler(std::string_view word);
bool is_position(std::string_view word);  ///< __LINE__ and its like
bool is_forbidden_name(std::string_view word);
bool is_forbidden_call(std::string_view word);    ///< only where '(' follows
bool is_forbidden_in_std(std::string_view word);  ///< behind std::
bool is_known_builtin(std::string_view word);     ///< word begins with __builtin_

/// __attribute__ in its spellings.
bool is_attribute_word(std::string_view word);
/// With or without underscores around it.
bool is_known_attribute(std::string_view name);
std::string attribute_names();

/// Words that make a declaration something else than a variable or function: types, aliases,
/// templates, assertions.
bool begins_other_declaration(std::string_view word);

}  // namespace quern::env::rules
