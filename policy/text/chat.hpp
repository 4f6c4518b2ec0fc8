// Chat templates: how messages become the tokens of a prompt. Templates are coded, not interpreted;
// the hash of a model's template text says which of them it asks for, and an unknown one is
// refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "policy/text/tokenizer.hpp"

namespace quern::policy {

struct chat_message {
  std::string role;  ///< "system" (only as the first message), "user" or "assistant"
  std::string content;
};

enum class chat_format : std::uint8_t {
  none,    ///< no template: the contents in a row, after what the tokenizer's post-processor adds
  chatml,  ///< <|im_start|>ROLE\nCONTENT<|im_end|>\n for each message
  qwen2,   ///< chatml, with Qwen2.5's own system message where the first message is not one
  qwen3,   ///< chatml; reasoning is dropped from earlier turns and marked in the last
  llama3,  ///< <|begin_of_text|>, then
           ///< <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>
};

std::string_view name_of(chat_format format);

/// The format that the text of a `chat_template` asks for, by its xxh128 (white space at its end
/// does not count). An unknown text is refused with its hash.
base::expected<chat_format> format_of_template(std::string_view template_text);
/// Reads DIR/chat_template.jinja, else `chat_template` of DIR/tokenizer_config.json; `none` if
/// neither is there.
base::expected<chat_format> load_chat_format(const std::filesystem::path& dir);
/// A Jinja text for a policy of one's own: of chatml and llama3, known to format_of_template. Empty
/// for the others: `none` has none, and a policy that came with a template keeps its file.
std::string_view template_text(chat_format format);

/// The conversation as text, for people and logs, with `add_generation_prompt` up to the head of
/// the assistant's turn. Refused: an unknown role, a system message that is not the first.
base::expected<std::string> render_chat(chat_format format, std::span<const chat_message> messages,
                                        bool add_generation_prompt = true);

/// The tokens of the conversation. Only the template itself makes special tokens; the contents
/// never do, whatever they look like. Also refused: a tokenizer without the tokens that the format
/// needs.
base::expected<std::vector<token_id>> encode_chat(const tokenizer& tokenizer, chat_format format,
                                                  std::span<const chat_message> messages,
                                                  bool add_generation_prompt = true);

/// The tokens of an answer as a policy writes it: those of `text`, none of them special, and the
/// token that ends the answer. That is the end of a turn in `format` where it is one of
/// `end_tokens` (model_config::eos_tokens), else the first of these; none of these: no end.
std::vector<token_id> encode_answer(const tokenizer& tokenizer, chat_format format,
                                    std::span<const token_id> end_tokens, std::string_view text);

}  // namespace quern::policy
