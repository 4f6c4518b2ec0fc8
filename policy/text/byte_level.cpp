// The byte alphabet of GPT-2's tokenizer.
#include "policy/text/byte_level.hpp"

#include <array>

#include "policy/text/utf8.hpp"

namespace quern::policy {

namespace {

constexpr bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr char32_t first_extra = 0x100;
constexpr std::size_t extras = 68;

struct alphabet {
  std::array<char32_t, 256> character{};
  std::array<std::uint8_t, extras> extra{};
};

constexpr alphabet make_alphabet() {
  alphabet result;
  std::size_t next = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (is_printable(byte)) {
      result.character[byte] = byte;
      continue;
    }
    result.extra[next] = static_cast<std::uint8_t>(byte);
    result.character[byte] = first_extra + static_cast<char32_t>(next++);
  }
  return result;
}

constexpr alphabet letters = make_alphabet();

}  // namespace

char32_t char_of_byte(std::uint8_t byte) {
  return letters.character[byte];
}

std::optional<std::uint8_t> byte_of_char(char32_t character) {
  if (character < 256 && is_printable(character)) return static_cast<std::uint8_t>(character);
  if (character >= first_extra && character < first_extra + extras)
    return letters.extra[character - first_extra];
  return std::nullopt;
}

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes)
    append_utf8(out, char_of_byte(static_cast<std::uint8_t>(byte)));
  return out;
}

std::optional<std::string> unspell_bytes(std::string_view spelling) {
  std::string out;
  for (std::size_t at = 0; at < spelling.size();) {
    const utf8_char c = decode_utf8(spelling, at);
    const auto byte = c.valid ? byte_of_char(c.code) : std::nullopt;
    if (!byte) return std::nullopt;
    out.push_back(static_cast<char>(*byte));
    at += c.size;
  }
  return out;
}

}  // namespace quern::policy
