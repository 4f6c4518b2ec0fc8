// The printable alphabet of byte-level BPE: tokenizer.json spells each byte as one character.
// Bytes 21..7E, A1..AC and AE..FF stand for themselves, the other 68 for U+0100 and on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern::policy {

char32_t char_of_byte(std::uint8_t byte);
std::optional<std::uint8_t> byte_of_char(char32_t character);

/// Bytes to their spelling, and back; nothing where a character is not of the alphabet.
std::string spell_bytes(std::string_view bytes);
std::optional<std::string> unspell_bytes(std::string_view spelling);

}  // namespace quern::policy
