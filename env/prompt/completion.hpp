// What the policy writes, taken apart: docs/formats/completion.md. Each way to get it wrong has its
// own name.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace quern::env {

/// The three parts of a completion, without their headings, trimmed of empty lines.
struct completion {
  std::string analysis;  ///< "## Performance Analysis"
  std::string design;    ///< "## Algorithm Design"
  std::string code;      ///< content of the one fenced block under "## Code"; ends with a newline
  friend bool operator==(const completion&, const completion&) = default;
};

/// Reasons of the verdict malformed. Grows at the end.
enum class malformed_reason {
  empty,                    ///< nothing but white space
  too_long,                 ///< more bytes than max_completion_bytes
  bad_bytes,                ///< a zero byte or invalid UTF-8
  missing_section,          ///< one of the three headings does not occur
  duplicate_section,        ///< one of them occurs twice
  section_order,            ///< they occur in another order
  no_code_block,            ///< no fence under "## Code"
  several_code_blocks,      ///< more than one fenced block under "## Code"
  unterminated_code_block,  ///< a fence that is never closed
  empty_code                ///< a block with nothing in it
};

inline constexpr int malformed_reason_count = 10;

std::string_view name_of(malformed_reason reason);
std::optional<malformed_reason> parse_malformed_reason(std::string_view name);

struct malformed {
  malformed_reason reason = malformed_reason::empty;
  std::string detail;  ///< one sentence that says what was found and what was wanted
};

inline constexpr std::size_t max_completion_bytes = 256 * 1024;

/// Takes a completion apart. Rules: a heading is a line of exactly two hashes, a space and the
/// name, outside of fenced blocks; a fence is a line that begins with three or more backticks (at
/// most three spaces before them) and is closed by a line of at least as many and nothing else;
/// text before the first heading and around the code block is allowed; a first line that ends in
/// </think> closes the model's thoughts, and all up to it is skipped. Never throws, whatever the
/// bytes.
tl::expected<completion, malformed> parse_completion(std::string_view text);

/// The text that parse_completion reads back: used to write corpora and tests. `fence` is the word
/// behind the fence of the code (lane::fence); the fence grows when the code contains one.
std::string render_completion(const completion& what, std::string_view fence);

}  // namespace quern::env
