// Texts of others on a terminal.
#include "base/printable.hpp"

#include <string>

#include "support/test.hpp"

using quern::base::printable;

TEST_CASE("plain text of any language is shown as it is") {
  for (const std::string text : {"", "a line\n\tand another", "\u00fcber \u65e5\u672c \U0001F600"})
    CHECK(printable(text) == text);
}

TEST_CASE("what a terminal acts on is shown by its number") {
  CHECK(printable("\x1b[31mred\x07") == "\\x1b[31mred\\x07");
  CHECK(printable("a\rb\x7f") == "a\\x0db\\x7f");
  CHECK(printable("\u009b2J") == "\\x9b2J");
  CHECK(printable("x\u202ey\u2066z\u200f") == "x\\u202ey\\u2066z\\u200f");
  CHECK(printable(std::string("a\0b", 3)) == "a\\x00b");
}

TEST_CASE("bytes that are no UTF-8 are shown by their numbers") {
  CHECK(printable("a\x9b\xff\xc3") == "a\\x9b\\xff\\xc3");
  CHECK(printable("\xed\xa0\x80z") == "\\xed\\xa0\\x80z");
}
