// What a static screen finds: the rules by name and the place in the text. The screens are of the
// lanes. They keep the policy from learning tricks; they are not what keeps the host safe (that is
// env/sandbox), and no check of a result depends on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quern::env {

/// Sources longer than this are refused unread.
inline constexpr std::size_t max_source_bytes = 256 << 10;

/// Which rule. Closed, grows at the end: names stand in verdicts as the reason.
enum class screen_rule {
  too_long,
  include,         ///< an #include of something else than one of the prelude's headers
  preprocessor,    ///< a line that is neither a pragma of the list nor an object-like constant
  pragma,          ///< a pragma that is not of the list
  assembler,       ///< asm in any spelling
  external,        ///< a declaration of something defined elsewhere, other than the two entries
  attribute,       ///< an attribute that is not of the list (constructor, section, alias, …)
  kept_pointer,    ///< a pointer that survives the call: no honest kernel needs one
  forbidden_name,  ///< processes, threads, files, clocks, loading code, compiler built-ins for them
  position,        ///< text that changes with its layout: __LINE__, __COUNTER__, __DATE__
  malformed_text,  ///< characters that no C++ program has outside literals and comments
  device_state,    ///< on a GPU: a device variable that keeps what a call computed for the next
  device_launch    ///< on a GPU: a kernel that starts kernels
};

std::string_view name_of(screen_rule rule);

struct screen_finding {
  screen_rule rule = screen_rule::too_long;
  std::uint32_t line = 0;  ///< 1-based
  std::string text;        ///< for a person: what was found, what is allowed
};

}  // namespace quern::env
