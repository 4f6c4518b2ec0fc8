// How long a prompt is for the policy of a run. Needs the policy's tokenizer, not its weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "policy/text/chat.hpp"
#include "policy/text/tokenizer.hpp"

namespace quern::actors {

/// `policy.model` as a folder: as given, or among the data that ships with Quern. Error: not_found,
/// naming key and value.
base::expected<std::filesystem::path> model_folder(const run_config& config);

/// Immutable; any thread.
class prompt_length {
 public:
  /// Reads tokenizer and chat template of the run's model. Errors: whatever reading them gives, a
  /// template that needs tokens that the tokenizer does not have.
  static base::expected<prompt_length> make(const run_config& config);

  /// Tokens of `prompt` as generators submit it: the one message of a conversation.
  [[nodiscard]] std::int64_t of(const std::string& prompt) const;
  /// policy.max_prompt_tokens.
  [[nodiscard]] std::int64_t limit() const { return limit_; }
  [[nodiscard]] bool fits(const std::string& prompt) const { return of(prompt) <= limit_; }

 private:
  prompt_length(policy::tokenizer text, policy::chat_format format, std::int64_t limit)
      : text_(std::move(text)), format_(format), limit_(limit) {}
  policy::tokenizer text_;
  policy::chat_format format_;
  std::int64_t limit_;
};

}  // namespace quern::actors
