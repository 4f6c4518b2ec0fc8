#include "base/printable.hpp"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "base/utf8.hpp"

namespace quern::base {
namespace {

struct code_point {
  std::uint32_t number = 0;
  std::size_t bytes = 1;
};

/// The first of a text that is valid UTF-8 and not empty.
code_point first_of(std::string_view text) {
  const auto lead = static_cast<std::uint8_t>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  std::uint32_t number = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i)
    number = number << 6 | (static_cast<std::uint8_t>(text[i]) & 0x3FU);
  return {number, bytes};
}

bool is_control(std::uint32_t number) {
  if (number == '\n' || number == '\t') return false;
  return number < 0x20 || (number >= 0x7F && number < 0xA0);
}

/// Embeddings, overrides, isolates and marks of direction.
bool is_direction(std::uint32_t number) {
  return (number >= 0x202A && number <= 0x202E) || (number >= 0x2066 && number <= 0x2069) ||
         number == 0x200E || number == 0x200F || number == 0x061C;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  std::size_t valid = first_invalid_utf8(text);
  for (std::size_t at = 0; at < text.size();) {
    if (at == valid) {
      shown += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(text[at]));
      ++at;
      valid = at + first_invalid_utf8(text.substr(at));
      continue;
    }
    const code_point one = first_of(text.substr(at));
    if (is_control(one.number))
      shown += fmt::format("\\x{:02x}", one.number);
    else if (is_direction(one.number))
      shown += fmt::format("\\u{:04x}", one.number);
    else
      shown += text.substr(at, one.bytes);
    at += one.bytes;
  }
  return shown;
}

}  // namespace quern::base
