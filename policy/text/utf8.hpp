// Small UTF-8 vocabulary of the tokenizer: decoding one code point, replacing what is invalid, and
// holding back what is not complete yet while tokens stream in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quern::policy {

/// A code point and the bytes it takes; `valid` is false for a byte that starts no valid sequence
/// (then size is 1 and code is the byte). Surrogates, overlong forms and values above 10FFFF are
/// invalid.
struct utf8_char {
  char32_t code = 0;
  std::uint8_t size = 1;
  bool valid = true;
};

/// The character at text[at]; at < text.size().
utf8_char decode_utf8(std::string_view text, std::size_t at);
void append_utf8(std::string& out, char32_t code);
bool is_valid_utf8(std::string_view text);

/// Each maximal prefix of a valid sequence that is not completed, and each other invalid byte,
/// becomes U+FFFD: what Python's bytes.decode("utf-8", "replace") and Rust's from_utf8_lossy do.
std::string replace_invalid_utf8(std::string_view bytes);

/// Bytes of tokens in, complete characters out: a character split over tokens is held back until
/// its last byte is there. Invalid bytes come out as U+FFFD.
class utf8_stream {
 public:
  /// What became complete with these bytes.
  std::string push(std::string_view bytes);
  /// What is left at the end of the stream (an incomplete character becomes one U+FFFD).
  std::string finish();

 private:
  std::string pending_;  // at most three bytes
};

}  // namespace quern::policy
