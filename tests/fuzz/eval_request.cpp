// Lines that a program writes to `quern eval --serve`.
#include "fuzz.hpp"
#include "tools/cli/eval_service.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  tools::eval_arguments usual;
  usual.core = 3;
  base::json id;
  const auto asked = tools::parse_eval_request(text, usual, id);
  require(id.is_null() || id.is_string() || id.is_number_integer(), "an id can be repeated");
  if (!asked) {
    require(!asked.error().message.empty(), "an error has a message");
    return;
  }
  require(!asked->job.task.empty(), "there is a task");
  require(asked->source.size() <= tools::max_candidate_bytes, "a candidate is bounded");
  require(asked->verdict || !asked->exact.is_null(), "something is asked for");
  require(asked->job.core == usual.core, "no line chooses the core");
}
