#include "base/utf8.hpp"

#include <cstdint>

namespace quern::base {

std::size_t first_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  while (at < text.size()) {
    const std::uint8_t lead = byte(at);
    if (lead < 0x80) {
      ++at;
      continue;
    }
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || length > text.size() - at) return at;
    for (std::size_t i = 1; i < length; ++i) {
      if ((byte(at + i) & 0xC0) != 0x80) return at;
    }
    const std::uint8_t second = byte(at + 1);
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) {
      return at;
    }
    at += length;
  }
  return at;
}

}  // namespace quern::base
