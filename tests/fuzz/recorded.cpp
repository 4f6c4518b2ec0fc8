// Recorded completions that a run plays.
#include "actors/orchestrator/recorded_file.hpp"
#include "base/json.hpp"
#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

namespace {

std::string written(const actors::recorded_completion& one) {
  base::json line{{"completion", one.text}};
  if (one.prompt)
    line["prompt"] = base::to_hex(*one.prompt);
  else
    line["task"] = one.task;
  return base::dump(line) + "\n";
}

bool same(const actors::recorded_completion& a, const actors::recorded_completion& b) {
  return a.task == b.task && a.prompt == b.prompt && a.text == b.text;
}

}  // namespace

QUERN_FUZZ(text) {
  // Small bounds, so that they are met.
  actors::recorded_limits limits;
  limits.bytes = 4096;
  limits.line_bytes = 512;
  limits.completions = 16;
  const auto read = actors::parse_recorded(text, limits);
  if (!read) {
    require(!read.error().message.empty(), "a refusal has a reason");
    return;
  }
  require(text.size() <= limits.bytes, "no file beyond its bound");
  require(!read->empty() && std::ssize(*read) <= limits.completions, "as many as are allowed");
  std::string all;
  std::int64_t last = 0;
  for (const auto& one : *read) {
    require(one.line > last, "lines are in order");
    last = one.line;
    require(one.task.empty() == one.prompt.has_value(), "either a task or a prompt");
    require(!one.text.empty() && one.text.size() <= limits.line_bytes, "a text within its bound");
    all += written(one);
  }
  const auto again = actors::parse_recorded(all);
  require(again && again->size() == read->size(), "what was read can be written");
  for (std::size_t i = 0; i < read->size(); ++i)
    require(same((*again)[i], (*read)[i]), "what was written is read the same");
}
