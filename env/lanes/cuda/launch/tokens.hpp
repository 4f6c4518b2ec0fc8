// The tokens of a candidate with macros expanded and directives taken out, each with its place in
// the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "env/lanes/cuda/launch/launch_plan.hpp"
#include "env/screen/lexer.hpp"

namespace quern::env::plan {

/// `>>` is two tokens `>` (the second glued), so that template arguments can end in it; `<<<` is
/// one. What a macro was replaced by stands where the macro was named.
struct plan_token {
  token_kind kind = token_kind::other;
  bool glued = false;
  bool from_macro = false;
  bool painted = false;  ///< a macro's name inside its own expansion: never expanded again
  std::uint32_t line = 1;
  std::uint32_t column = 1;
  std::size_t begin = 0;  ///< bytes of the file
  std::size_t end = 0;
  std::string text;
};

struct directive {
  std::string name;  ///< "include", "pragma", ...
  std::uint32_t line = 1;
  std::uint32_t column = 1;
  std::size_t begin = 0;
};

struct token_list {
  std::vector<plan_token> tokens;
  std::vector<directive> directives;
};

/// Carries out #define and #undef as the preprocessor does, except that macros with `#`, `##` or
/// `...` stay unexpanded (their names then mean nothing to the parser). #if and its like are
/// errors: what the compiler would see is not known here. #include and #pragma are left alone.
tl::expected<token_list, plan_error> read_tokens(std::string_view source);

}  // namespace quern::env::plan
