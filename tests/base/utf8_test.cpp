// UTF-8: what is valid, and where it stops being so.
#include "base/utf8.hpp"

#include <string>

#include "support/test.hpp"

using quern::base::first_invalid_utf8;

TEST_CASE("text in UTF-8 of every length is valid, control characters and zero bytes among it") {
  for (const std::string& text : {std::string(), std::string("a\n\x7F"), std::string(1, '\0'),
                                  std::string("\xC2\x80\xDF\xBF"),
                                  std::string("\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF"),
                                  std::string("\xF0\x90\x80\x80\xF4\x8F\xBF\xBF")})
    CHECK(first_invalid_utf8(text) == text.size());
}

TEST_CASE("overlong forms, surrogates, too large and cut characters begin what is invalid") {
  for (const char* const bad :
       {"\x80", "\xC0\xAF", "\xC1\xBF", "\xC2",
        "\xC2"
        "a",
        "\xE0\x9F\x80", "\xED\xA0\x80", "\xE2\x89",
        "\xE2\x89"
        "a",
        "\xF0\x8F\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF0\x90\x80", "\xFF"}) {
    CAPTURE(bad);
    CHECK(first_invalid_utf8(bad) == 0);
    CHECK(first_invalid_utf8(std::string("a\xC2\xA0") + bad) == 3);
    CHECK(first_invalid_utf8(std::string(bad) + "abcd") == 0);
  }
}
