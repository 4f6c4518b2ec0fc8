// What a candidate declares at namespace scope: where its kernels, functions, constants and types
// stand. Only their outlines are read here; the parser reads what the host functions use.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "env/lanes/cuda/launch/tokens.hpp"

namespace quern::env::plan {

enum class entity : std::uint8_t {
  kernel,  ///< __global__
  function,
  constant,  ///< constexpr or const variable with an initialiser
  variable,  ///< any other
  alias,     ///< using A = ..., typedef
  type       ///< class, struct, union, enum
};

/// A range of tokens [first, last).
struct token_range {
  std::size_t first = 0;
  std::size_t last = 0;
  [[nodiscard]] bool empty() const { return first >= last; }
};

struct declaration {
  entity kind = entity::function;
  std::string name;
  std::vector<std::string> path;  ///< namespaces around it; unnamed and inline ones left out
  std::string qualified;          ///< "a::b::name"
  token_range whole;
  std::size_t name_at = 0;
  bool is_template = false;
  token_range template_parameters;
  bool specialisation = false;
  bool external_c = false;
  bool device = false;
  bool host = false;
  bool is_constexpr = false;
  token_range parameters;  ///< of functions, between the parentheses
  bool defined = false;
  token_range body;         ///< between the braces
  token_range type;         ///< of constants and aliases; of functions: the result
  token_range initialiser;  ///< of constants
};

struct unit {
  std::vector<plan_token> tokens;  ///< the last one is an empty mark of the end
  std::vector<directive> directives;
  std::vector<declaration> declarations;
  std::map<std::string, std::vector<std::size_t>, std::less<>> by_name;  ///< qualified
  std::vector<std::vector<std::string>> opened;  ///< namespaces of using directives
};

/// Never recurses; braces and parentheses have to balance.
tl::expected<unit, plan_error> read_unit(std::string_view source);

/// The token that closes the bracket at `open` ('(', '[', '{' or '<'), which must be before `stop`;
/// `stop` where there is none.
std::size_t closing(const std::vector<plan_token>& tokens, std::size_t open, std::size_t stop);

/// The file with these ranges of tokens replaced by spaces (ends of lines stay).
std::string blanked(std::string_view source, const unit& of,
                    const std::vector<token_range>& ranges);

/// Whether a function runs on the host only, so that device code cannot need it.
bool host_only(const declaration& one);

}  // namespace quern::env::plan
