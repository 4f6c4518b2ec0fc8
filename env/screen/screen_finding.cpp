// Names of the rules of static screens.
#include "env/screen/screen_finding.hpp"

namespace quern::env {

std::string_view name_of(screen_rule rule) {
  constexpr std::string_view names[] = {
      "too_long",       "include",      "preprocessor", "pragma",         "assembler",
      "external",       "attribute",    "kept_pointer", "forbidden_name", "position",
      "malformed_text", "device_state", "device_launch"};
  return names[static_cast<std::size_t>(rule)];
}

}  // namespace quern::env
