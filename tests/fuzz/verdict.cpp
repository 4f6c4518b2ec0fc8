// Verdicts from evaluators of other machines.
#include "env/verdict/verdict.hpp"

#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  const auto what = env::parse_verdict(text);
  if (!what) {
    require(!what.error().message.empty(), "an error has a message");
    return;
  }
  const auto again = env::verdict_from_json(env::to_json(*what));
  require(again.has_value(), "what was read can be written");
  require(*again == *what, "what was written is read the same");
  require(!env::summary(*what).empty(), "a verdict has a summary");
}
