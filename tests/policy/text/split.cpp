// The split patterns, piece by piece, where the alternatives of the expression meet.
#include "policy/text/split.hpp"

#include <string>
#include <vector>

#include "support/test.hpp"

using namespace quern::policy;

namespace {

using pieces = std::vector<std::string>;

pieces split(std::string_view text, split_pattern pattern = split_pattern::qwen2) {
  pieces out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = next_piece(pattern, text, at);
    REQUIRE(size >= 1);
    REQUIRE(at + size <= text.size());
    out.emplace_back(text.substr(at, size));
    at += size;
  }
  return out;
}

}  // namespace

TEST_CASE("white space goes to the right piece") {
  CHECK(split("a   b") == pieces{"a", "  ", " b"});
  CHECK(split("a   ") == pieces{"a", "   "});
  CHECK(split("a \n b") == pieces{"a", " \n", " b"});
  CHECK(split("a \n  b") == pieces{"a", " \n", " ", " b"});
  CHECK(split("\n\n\n  ") == pieces{"\n\n\n", "  "});
  CHECK(split("\t\tx") == pieces{"\t", "\tx"});
  CHECK(split("  +") == pieces{" ", " +"});
  CHECK(split("\t+") == pieces{"\t", "+"});
  CHECK(split("x  1") == pieces{"x", " ", " ", "1"});
}

TEST_CASE("contractions, words, numbers and symbols") {
  CHECK(split("I'LL we've'd") == pieces{"I", "'LL", " we", "'ve", "'d"});
  CHECK(split("'l 'r") == pieces{"'l", " '", "r"});
  CHECK(split("'\u017fx") == pieces{"'\u017f", "x"});
  CHECK(split("x.y(z)") == pieces{"x", ".y", "(z", ")"});
  CHECK(split("a;\r\n\n b") == pieces{"a", ";\r\n\n", " b"});
  CHECK(split("12345") == pieces{"1", "2", "3", "4", "5"});
  CHECK(split("12345", split_pattern::llama3) == pieces{"123", "45"});
  CHECK(split("e\u0301a") == pieces{"e", "\u0301a"});
  CHECK(split("a\xFF\xFE"
              "b") == pieces{"a", "\xFF\xFE", "b"});
}

TEST_CASE("only the two expressions are known") {
  for (const auto pattern : {split_pattern::qwen2, split_pattern::llama3})
    CHECK(pattern_from_text(pattern_text(pattern)) == pattern);
  CHECK_FALSE(pattern_from_text("\\s+"));
}
