// The bytes of a Python module as the text that Python reads.
#include "env/lanes/pytorch/text/python_text.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace quern::env {
namespace {

bool is_python_blank(char c) {
  return c == ' ' || c == '\t' || c == '\f';
}

/// Bytes of the UTF-8 sequence at `at`; 0: there is no valid one.
std::size_t utf8_sequence(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  const std::size_t size = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (size == 0 || first > 0xF4) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(at + i) & 0xC0U) != 0x80U) return 0;
  const unsigned second = byte(at + 1);
  const bool is_overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool is_surrogate = first == 0xED && second >= 0xA0;
  const bool is_too_large = first == 0xF4 && second >= 0x90;
  return is_overlong || is_surrogate || is_too_large ? 0 : size;
}

std::string with_unix_lines(std::string_view text) {
  std::string lines;
  lines.reserve(text.size() + 1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      lines += text[i];
      continue;
    }
    lines += '\n';
    if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
  }
  if (!lines.empty() && lines.back() != '\n') lines += '\n';
  return lines;
}

/// The name that a line's encoding comment gives; empty: it has none.
std::string_view encoding_name(std::string_view line) {
  const auto begin = std::find_if_not(line.begin(), line.end(), is_python_blank);
  if (begin == line.end() || *begin != '#') return {};
  constexpr std::string_view word = "coding";
  for (std::size_t at = line.find(word); at != std::string_view::npos;
       at = line.find(word, at + 1)) {
    std::size_t name = at + word.size();
    if (name >= line.size() || (line[name] != ':' && line[name] != '=')) continue;
    ++name;
    while (name < line.size() && (line[name] == ' ' || line[name] == '\t'))
      ++name;
    std::size_t end = name;
    const auto is_part = [](char c) {
      return (in_python_name(c) && static_cast<unsigned char>(c) < 0x80) || c == '-' || c == '.';
    };
    while (end < line.size() && is_part(line[end]))
      ++end;
    if (end > name) return line.substr(name, end - name);
  }
  return {};
}

bool names_utf8(std::string_view encoding) {
  std::string name(encoding);
  for (char& c : name)
    c = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name == "utf-8" || name.starts_with("utf-8-") || name == "utf8";
}

/// The line of an encoding comment that names another encoding than UTF-8; 0: there is none.
std::uint32_t line_of_other_encoding(std::string_view text) {
  for (std::uint32_t number = 1; number <= 2 && !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::string_view name = encoding_name(line);
    if (!name.empty()) return names_utf8(name) ? 0 : number;
    const auto begin = std::find_if_not(line.begin(), line.end(), is_python_blank);
    if (begin != line.end() && *begin != '#') return 0;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return 0;
}

std::optional<python_fault> fault_of_bytes(std::string_view text) {
  std::uint32_t line = 1;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\0') return python_fault{python_fault_kind::nul_byte, line};
    if (text[at] == '\n') ++line;
    const std::size_t size = utf8_sequence(text, at);
    if (size == 0) return python_fault{python_fault_kind::not_utf8, line};
    at += size;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(python_fault_kind kind) {
  using enum python_fault_kind;
  switch (kind) {
    case too_long:
      return "too_long";
    case nul_byte:
      return "nul_byte";
    case not_utf8:
      return "not_utf8";
    case other_encoding:
      return "other_encoding";
    case unterminated_string:
      return "unterminated_string";
    case bad_field:
      return "bad_field";
    case bad_number:
      return "bad_number";
    case bad_character:
      return "bad_character";
    case bad_continuation:
      return "bad_continuation";
    case bracket_mismatch:
      return "bracket_mismatch";
    case open_bracket:
      return "open_bracket";
    case bad_indentation:
      return "bad_indentation";
    case mixed_tabs:
      return "mixed_tabs";
    case too_deep:
      return "too_deep";
  }
  return "unknown";
}

python_text read_python_text(std::string_view bytes) {
  if (bytes.size() > max_python_bytes) return {{}, python_fault{python_fault_kind::too_long, 1}};
  python_text read{with_unix_lines(base::without_byte_order_mark(bytes)), {}};
  if (const auto line = line_of_other_encoding(read.text); line != 0)
    read.fault = python_fault{python_fault_kind::other_encoding, line};
  else
    read.fault = fault_of_bytes(read.text);
  if (read.fault) read.text.clear();
  return read;
}

}  // namespace quern::env
