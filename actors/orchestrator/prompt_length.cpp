#include "actors/orchestrator/prompt_length.hpp"

#include <limits>

#include "base/program.hpp"

namespace quern::actors {
namespace {

base::expected<std::int64_t> tokens_of(const policy::tokenizer& text, policy::chat_format format,
                                       const std::string& prompt) {
  const policy::chat_message message{"user", prompt};
  QUERN_TRY(const auto tokens, policy::encode_chat(text, format, std::span(&message, 1)));
  return static_cast<std::int64_t>(tokens.size());
}

}  // namespace

base::expected<std::filesystem::path> model_folder(const run_config& config) {
  const std::filesystem::path given = config.policy.model;
  std::error_code code;
  if (std::filesystem::exists(given / "config.json", code)) return std::filesystem::absolute(given);
  if (given.is_relative() && !given.empty()) {
    auto shipped = base::share_folder(config.policy.model);
    if (shipped && std::filesystem::exists(*shipped / "config.json", code)) return shipped;
  }
  return base::fail(base::errc::not_found,
                    "policy.model: '{}' has no config.json; give a Hugging Face folder",
                    config.policy.model);
}

base::expected<prompt_length> prompt_length::make(const run_config& config) {
  QUERN_TRY(const auto folder, model_folder(config));
  QUERN_TRY(policy::tokenizer text, policy::tokenizer::load(folder));
  QUERN_TRY(const policy::chat_format format, policy::load_chat_format(folder));
  QUERN_CHECK(tokens_of(text, format, "a prompt"));
  return prompt_length(std::move(text), format, config.policy.max_prompt_tokens);
}

std::int64_t prompt_length::of(const std::string& prompt) const {
  // What fails does not depend on the text: `make` has tried it.
  return tokens_of(text_, format_, prompt).value_or(std::numeric_limits<std::int64_t>::max());
}

}  // namespace quern::actors
