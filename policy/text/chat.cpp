// The coded chat templates.
#include "policy/text/chat.hpp"

#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "policy/text/utf8.hpp"

namespace quern::policy {

using base::errc;
using base::expected;
using base::fail;

namespace {

constexpr std::string_view chatml_text =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ "
    "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "
    "}}{% endif %}";
constexpr std::string_view llama3_text =
    "{{ '<|begin_of_text|>' }}{% for message in messages %}{{ '<|start_header_id|>' + "
    "message['role'] + "
    "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% "
    "endif %}";
constexpr std::string_view qwen2_system =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";

constexpr std::array<std::pair<chat_format, std::string_view>, 5> format_names{
    {{chat_format::none, "none"},
     {chat_format::chatml, "chatml"},
     {chat_format::qwen2, "qwen2"},
     {chat_format::qwen3, "qwen3"},
     {chat_format::llama3, "llama3"}}};

struct known_template {
  std::string_view hash;
  chat_format format;
};
/// Templates that models are published with, for conversations without tools.
constexpr std::array<known_template, 3> published{
    {{"e392aa06018503fd2469c9508f79506e",
      chat_format::qwen2},  // Qwen2.5-Instruct, Qwen2.5-Coder-Instruct
     {"4457e3d12b367a860283f874ff58d644", chat_format::qwen3},     // Qwen3
     {"09facc0e4aa943189799ad6e2dea0594", chat_format::llama3}}};  // Meta-Llama-3-Instruct

constexpr std::size_t max_template_bytes = 1U << 20U;
constexpr std::size_t max_tokenizer_config_bytes = 16U << 20U;

std::string_view without_end_space(std::string_view text) {
  const auto last = text.find_last_not_of(" \t\r\n");
  return last == std::string_view::npos ? std::string_view{} : text.substr(0, last + 1);
}

/// A conversation in parts: special tokens by name, and plain text between them.
struct chat_part {
  bool special = false;
  std::string text;
};

class writer {
 public:
  void special(std::string_view token) { parts_.push_back({true, std::string(token)}); }
  void text(std::string_view plain) {
    if (plain.empty()) return;
    // Neighbours are one text: where a token may end must not depend on how the template is coded.
    if (parts_.empty() || parts_.back().special) parts_.push_back({false, {}});
    parts_.back().text += plain;
  }
  std::vector<chat_part> take() { return std::move(parts_); }

 private:
  std::vector<chat_part> parts_;
};

/// Python's str.strip(), which Jinja's trim is: Unicode white space and the four separators.
bool is_strip_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string_view strip(std::string_view text) {
  std::size_t begin = text.size();
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const utf8_char c = decode_utf8(text, at);
    if (!c.valid || !is_strip_space(c.code)) {
      begin = std::min(begin, at);
      end = at + c.size;
    }
    at += c.size;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view{};
}

std::string_view strip_newlines(std::string_view text, bool front, bool back) {
  while (front && text.starts_with('\n'))
    text.remove_prefix(1);
  while (back && text.ends_with('\n'))
    text.remove_suffix(1);
  return text;
}

void chatml_turn(writer& out, std::string_view role, std::string_view content) {
  out.special("<|im_start|>");
  out.text(role);
  out.text("\n");
  out.text(content);
  out.special("<|im_end|>");
  out.text("\n");
}

/// Index of the last user message that is a question and not the answer of a tool; the last message
/// where there is none.
std::size_t last_query(std::span<const chat_message> messages) {
  for (std::size_t i = messages.size(); i-- > 0;) {
    const auto& m = messages[i];
    if (m.role == "user" &&
        !(m.content.starts_with("<tool_response>") && m.content.ends_with("</tool_response>")))
      return i;
  }
  return messages.empty() ? 0 : messages.size() - 1;
}

void qwen3_assistant(writer& out, std::string_view whole, bool after_query, bool last) {
  constexpr std::string_view open = "<think>";
  constexpr std::string_view close = "</think>";
  std::string_view content = whole;
  std::string_view reasoning;
  if (const auto first_close = whole.find(close); first_close != std::string_view::npos) {
    content = strip_newlines(whole.substr(whole.rfind(close) + close.size()), true, false);
    reasoning = strip_newlines(whole.substr(0, first_close), false, true);
    if (const auto begin = reasoning.rfind(open); begin != std::string_view::npos)
      reasoning = reasoning.substr(begin + open.size());
    reasoning = strip_newlines(reasoning, true, false);
  }
  if (!after_query || (!last && reasoning.empty())) return chatml_turn(out, "assistant", content);
  std::string marked("<think>\n");
  marked += strip_newlines(reasoning, true, true);
  marked += "\n</think>\n\n";
  marked += strip_newlines(content, true, false);
  chatml_turn(out, "assistant", marked);
}

void chatml(writer& out, chat_format format, std::span<const chat_message> messages) {
  if (format == chat_format::qwen2 && (messages.empty() || messages[0].role != "system"))
    chatml_turn(out, "system", qwen2_system);
  const std::size_t query = last_query(messages);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (format == chat_format::qwen3 && messages[i].role == "assistant")
      qwen3_assistant(out, messages[i].content, i > query, i + 1 == messages.size());
    else
      chatml_turn(out, messages[i].role, messages[i].content);
  }
}

void llama3_head(writer& out, std::string_view role) {
  out.special("<|start_header_id|>");
  out.text(role);
  out.special("<|end_header_id|>");
  out.text("\n\n");
}

void llama3(writer& out, std::span<const chat_message> messages) {
  out.special("<|begin_of_text|>");
  for (const auto& message : messages) {
    llama3_head(out, message.role);
    out.text(strip(message.content));
    out.special("<|eot_id|>");
  }
}

expected<std::vector<chat_part>> lay_out(chat_format format, std::span<const chat_message> messages,
                                         bool add_generation_prompt) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto& role = messages[i].role;
    if (role != "system" && role != "user" && role != "assistant")
      return fail(errc::invalid_argument,
                  "message {} has the role '{}'; system, user and assistant are known", i, role);
    if (role == "system" && i > 0)
      return fail(errc::invalid_argument,
                  "message {} is a system message; only the first may be one", i);
  }
  writer out;
  if (format == chat_format::none) {
    for (const auto& message : messages)
      out.text(message.content);
  } else if (format == chat_format::llama3) {
    llama3(out, messages);
    if (add_generation_prompt) llama3_head(out, "assistant");
  } else {
    chatml(out, format, messages);
    if (add_generation_prompt) {
      out.special("<|im_start|>");
      out.text("assistant\n");
    }
  }
  return out.take();
}

}  // namespace

std::string_view name_of(chat_format format) {
  return format_names[static_cast<std::size_t>(format)].second;
}

std::string_view template_text(chat_format format) {
  if (format == chat_format::chatml) return chatml_text;
  if (format == chat_format::llama3) return llama3_text;
  return {};
}

expected<chat_format> format_of_template(std::string_view text) {
  const std::string_view trimmed = without_end_space(text);
  for (const auto format : {chat_format::chatml, chat_format::llama3})
    if (trimmed == template_text(format)) return format;
  const auto hash = base::to_hex(base::xxh128(trimmed));
  for (const auto& known : published)
    if (known.hash == hash) return known.format;
  return fail(errc::invalid_argument,
              "the chat template with the hash {} is not known here; known are those of Qwen2.5, "
              "Qwen3, Llama-3 "
              "and plain ChatML. Replace chat_template.jinja by one of these if the model was "
              "trained with it",
              hash);
}

expected<chat_format> load_chat_format(const std::filesystem::path& dir) {
  const auto file = dir / "chat_template.jinja";
  if (std::filesystem::exists(file)) {
    QUERN_TRY(const auto text, base::read_file(file, max_template_bytes));
    return format_of_template(text);
  }
  const auto config_file = dir / "tokenizer_config.json";
  if (!std::filesystem::exists(config_file)) return chat_format::none;
  QUERN_TRY(const auto text, base::read_file(config_file, max_tokenizer_config_bytes));
  const auto config = base::parse_json(text);
  if (!config) return base::in_context(config_file.string(), config.error());
  const auto found = config->is_object() ? config->find("chat_template") : config->end();
  if (!config->is_object() || found == config->end() || found->is_null()) return chat_format::none;
  if (!found->is_string())
    return fail(errc::invalid_argument,
                "{}: chat_template is not one text; several templates are not read",
                config_file.string());
  return format_of_template(found->get<std::string>());
}

expected<std::string> render_chat(chat_format format, std::span<const chat_message> messages,
                                  bool add_generation_prompt) {
  QUERN_TRY(const auto parts, lay_out(format, messages, add_generation_prompt));
  std::string out;
  for (const auto& part : parts)
    out += part.text;
  return out;
}

expected<std::vector<token_id>> encode_chat(const tokenizer& tokenizer, chat_format format,
                                            std::span<const chat_message> messages,
                                            bool add_generation_prompt) {
  QUERN_TRY(const auto parts, lay_out(format, messages, add_generation_prompt));
  if (format == chat_format::none)
    return tokenizer.encode(parts.empty() ? "" : parts.front().text, {false, true});
  std::vector<token_id> out;
  for (const auto& part : parts) {
    if (!part.special) {
      const auto tokens = tokenizer.encode(part.text);
      out.insert(out.end(), tokens.begin(), tokens.end());
      continue;
    }
    const auto id = tokenizer.find(part.text);
    if (!id || !tokenizer.is_special(*id))
      return fail(
          errc::invalid_argument,
          "the chat format {} needs the special token {}, which the tokenizer does not have",
          name_of(format), part.text);
    out.push_back(*id);
  }
  return out;
}

std::vector<token_id> encode_answer(const tokenizer& tokenizer, chat_format format,
                                    std::span<const token_id> end_tokens, std::string_view text) {
  std::vector<token_id> out = tokenizer.encode(text);
  if (end_tokens.empty()) return out;
  const auto turn = tokenizer.find(format == chat_format::llama3 ? "<|eot_id|>" : "<|im_end|>");
  const bool ends = format != chat_format::none && turn &&
                    std::find(end_tokens.begin(), end_tokens.end(), *turn) != end_tokens.end();
  out.push_back(ends ? *turn : end_tokens.front());
  return out;
}

}  // namespace quern::policy
