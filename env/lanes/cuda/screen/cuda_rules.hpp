// The closed lists that the static screen of lane `cuda` goes by, beside those of
// common_rules.hpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "env/lanes/cuda/screen/cuda_screen.hpp"
#include "env/screen/lexer.hpp"

namespace quern::env::cuda_rules {

/// Why a word may not stand anywhere in a candidate; empty: it may. `called`: '(' follows it.
std::string_view why_forbidden(std::string_view word, bool called,
                               const cuda_screen_policy& policy);

/// The words behind #pragma.
bool is_known_pragma(std::span<const token> words);
std::string_view pragma_names();

/// Words that a macro must not be called.
bool is_reserved_macro_name(std::string_view name);

/// The text of an inline assembler statement: the first of its words that is not for a kernel.
/// Empty: there is none. What it begins statements with has to be in a list of PTX instructions,
/// with a type behind a '.', or `.reg`; no assembler of a host takes those. Linear.
std::string forbidden_in_ptx(std::string_view text);

/// Words that give a declaration its place: __device__, static, extern, …
bool is_specifier(std::string_view word);

/// Those of a function: on the device, on the host.
bool is_place(std::string_view word);

/// Types of which one object, without an initialiser, is a counter and no cache.
bool is_counter_type(std::string_view word);

}  // namespace quern::env::cuda_rules
