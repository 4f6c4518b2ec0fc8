// UTF-8: validity by the standard's table, replacement as Python does it, streaming.
#include "policy/text/utf8.hpp"

#include <random>

#include "support/test.hpp"

using namespace quern::policy;

TEST_CASE("every code point is encoded and decoded; surrogates and larger values are not valid") {
  int wrong = 0;
  for (char32_t code = 0; code < 0x110000; ++code) {
    std::string text;
    append_utf8(text, code);
    const utf8_char c = decode_utf8(text, 0);
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    if (c.valid == surrogate) ++wrong;
    if (c.valid && (c.code != code || c.size != text.size())) ++wrong;
  }
  CHECK(wrong == 0);
  for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF",
                          "\xED\xA0\x80", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "\xF0\x9F\x98"})
    CHECK_FALSE(is_valid_utf8(bad));
  CHECK(is_valid_utf8("a\u00e9\u20ac\U0001F600"));
}

TEST_CASE("invalid bytes are replaced as the standard recommends") {
  const std::string r = "\uFFFD";
  CHECK(replace_invalid_utf8("a\xFFz") == "a" + r + "z");
  CHECK(replace_invalid_utf8("\xE2\x82") == r);
  CHECK(replace_invalid_utf8("\xE2\x82z") == r + "z");
  CHECK(replace_invalid_utf8("\xF0\x9F\x98\xE2\x82\xAC") == r + "\u20ac");
  CHECK(replace_invalid_utf8("\xC0\x80") == r + r);
  CHECK(replace_invalid_utf8("\xED\xA0\x80") == r + r + r);
  CHECK(replace_invalid_utf8("\xF4\x90\x80\x80") == r + r + r + r);
}

TEST_CASE("a stream cut anywhere gives the same text, and only whole characters") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (std::size_t i = random() % 20; i > 0; --i) {
      if (random() % 4 == 0)
        bytes.push_back(static_cast<char>(random()));
      else
        append_utf8(bytes, static_cast<char32_t>(random() % 0xD800));
    }
    utf8_stream stream;
    std::string out;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t size = 1 + random() % 3;
      const std::string part = stream.push(std::string_view(bytes).substr(at, size));
      CHECK(is_valid_utf8(part));
      out += part;
      at += size;
    }
    CHECK(out + stream.finish() == replace_invalid_utf8(bytes));
  }
}

TEST_CASE("a character is held back until it is whole") {
  utf8_stream stream;
  CHECK(stream.push("a\xF0\x9F") == "a");
  CHECK(stream.push("\x98").empty());
  CHECK(stream.push("\x80") == "\U0001F600");
  CHECK(stream.push("\xE2") == "");
  CHECK(stream.finish() == "\uFFFD");
  CHECK(stream.finish().empty());
}
