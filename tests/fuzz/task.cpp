// Task files: YAML of users, and of runs that send their tasks to evaluators.
#include "env/task/task_codec.hpp"
#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  const auto what = env::parse_task(text);
  if (!what) {
    require(!what.error().message.empty(), "an error has a message");
    return;
  }
  const std::string canonical = env::to_yaml(*what);
  const auto again = env::parse_task(canonical);
  require(again.has_value(), "what was read can be written");
  require(*again == *what, "what was written is read the same");
  require(env::to_yaml(*again) == canonical, "a canonical text is canonical");
}
