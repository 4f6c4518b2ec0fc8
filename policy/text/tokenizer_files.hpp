// The tokenizer's part of a model directory, for a policy of one's own. A policy that came from
// elsewhere keeps the files that it came with.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "policy/text/chat.hpp"

namespace quern::policy {

/// Contents of special tokens, for the programs that ask for them by role.
struct special_names {
  std::optional<std::string> begin;
  std::optional<std::string> end;
  std::optional<std::string> pad;
};

/// Writes DIR/tokenizer.json (the text that train_bpe gives), DIR/tokenizer_config.json, so that
/// transformers' AutoTokenizer loads the directory, and DIR/chat_template.jinja where the format
/// has a template of ours. Refused: a tokenizer that does not load, a name that is none of its
/// special tokens, a format whose template is not ours.
base::status save_tokenizer(const std::filesystem::path& dir, std::string_view tokenizer_json,
                            const special_names& names, chat_format format = chat_format::none);

/// DIR/tokenizer_config.json for transformers' `generate`, which refuses what a model does not
/// take: `model_input_names` is written where it is missing, and loses `token_type_ids`, which
/// PreTrainedTokenizerFast of transformers 4 has by default and no model of ours takes. All else
/// stays as it was; a folder without the file is left alone. Errors: io; corrupt, no JSON object.
base::status fit_tokenizer_config(const std::filesystem::path& dir);

}  // namespace quern::policy
