// What `quern sample` prints of completions, for people and for programs. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::tools {

/// A line that quern-torch writes of one completion.
struct sampled_completion {
  std::int64_t number = 0;  ///< from 1 on
  std::string text;
  bool truncated = false;  ///< it has max_tokens tokens, and the policy did not end it
  std::int64_t prompt_tokens = 0;
  std::int64_t max_tokens = 0;
  base::json token_ids, log_probs;
  std::optional<env::verdict> verdict;  ///< none: it was not judged

  [[nodiscard]] std::int64_t tokens() const { return std::ssize(token_ids); }
};

/// Errors: corrupt.
base::expected<sampled_completion> read_completion_line(std::string_view line, std::int64_t number);

/// A heading with number and length, and what was written, as the policy wrote it.
std::string completion_text(const sampled_completion& one);
/// "verdict 2: ok 1.37x; 95 % interval 1.35x to 1.39x" and a line end.
std::string verdict_line(std::int64_t number, const env::verdict& value);
/// "8 completions, 1 truncated: 5 ok, 3 malformed; the fastest is number 3 (1.37x)" and a line end.
std::string tally_line(const std::vector<sampled_completion>& all);
/// docs/formats/sampled.md.
base::ordered_json completion_json(const sampled_completion& one);

}  // namespace quern::tools
