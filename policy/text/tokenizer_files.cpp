// Writes the tokenizer files of a model directory.
#include "policy/text/tokenizer_files.hpp"

#include <array>

#include "base/file.hpp"
#include "base/json.hpp"

namespace quern::policy {

namespace {

constexpr std::size_t most_config_bytes = 16U << 20U;
constexpr std::string_view inputs_key = "model_input_names";

}  // namespace

base::status save_tokenizer(const std::filesystem::path& dir, std::string_view tokenizer_json,
                            const special_names& names, chat_format format) {
  QUERN_TRY(const auto loaded, tokenizer::parse(tokenizer_json));
  base::ordered_json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
                            {"clean_up_tokenization_spaces", false},
                            {inputs_key, {"input_ids", "attention_mask"}}};
  const std::array<std::pair<const char*, const std::optional<std::string>*>, 3> roles{
      {{"bos_token", &names.begin}, {"eos_token", &names.end}, {"pad_token", &names.pad}}};
  for (const auto& [key, name] : roles) {
    if (!*name) continue;
    const auto id = loaded.find(**name);
    if (!id || !loaded.is_special(*id))
      return base::fail(base::errc::invalid_argument,
                        "{} is to be '{}', which is no special token of the tokenizer", key,
                        **name);
    config[key] = **name;
  }
  const std::string_view chat = template_text(format);
  if (format != chat_format::none && chat.empty())
    return base::fail(
        base::errc::invalid_argument,
        "the template of {} is not ours to write; copy the file of the policy it came with",
        name_of(format));
  QUERN_CHECK(base::make_folders(dir));
  QUERN_CHECK(base::write_file_atomic(dir / "tokenizer.json", tokenizer_json));
  QUERN_CHECK(
      base::write_file_atomic(dir / "tokenizer_config.json", base::dump_pretty(config) + "\n"));
  if (chat.empty()) return {};
  return base::write_file_atomic(dir / "chat_template.jinja", chat);
}

base::status fit_tokenizer_config(const std::filesystem::path& dir) {
  const auto file = dir / "tokenizer_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  QUERN_TRY(const std::string text, base::read_file(file, most_config_bytes));
  auto config = base::ordered_json::parse(text, nullptr, false);
  if (!config.is_object())
    return base::fail(base::errc::corrupt,
                      "{} is no JSON object: put the file back that the policy came with",
                      file.string());
  const auto named = config.find(inputs_key);
  base::ordered_json inputs = base::ordered_json::array();
  if (named == config.end() || !named->is_array()) {
    inputs = {"input_ids", "attention_mask"};
  } else {
    for (const auto& name : *named)
      if (name != "token_type_ids") inputs.push_back(name);
    if (inputs.size() == named->size()) return {};
  }
  config[inputs_key] = std::move(inputs);
  return base::write_file_atomic(file, base::dump_pretty(config) + "\n");
}

}  // namespace quern::policy
