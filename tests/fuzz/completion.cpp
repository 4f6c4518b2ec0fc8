// What the policy writes.
#include "env/prompt/completion.hpp"

#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  const auto parts = env::parse_completion(text);
  if (!parts) {
    require(!parts.error().detail.empty(), "a malformed one has a reason");
    return;
  }
  require(parts->code.ends_with('\n'), "code ends its last line");
  const std::string written = env::render_completion(*parts, "cpp");
  if (written.size() > env::max_completion_bytes) return;
  const auto again = env::parse_completion(written);
  require(again.has_value(), "what was read can be written");
  require(*again == *parts, "what was written is read the same");
}
