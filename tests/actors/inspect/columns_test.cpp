// Texts side by side on a terminal of a fixed width.
#include "actors/inspect/columns.hpp"

#include "base/text.hpp"
#include "support/test.hpp"

using namespace quern;
using actors::side_by_side;

namespace {

constexpr std::size_t two_columns = 2 * actors::narrowest_column + 3;

std::string padded(std::string text) {
  text.resize(actors::narrowest_column, ' ');
  return text;
}

}  // namespace

TEST_CASE("columns stand beside each other where two have room, else one below another") {
  const std::vector<std::string> texts = {"a\nbb\n", "c\n"};
  CHECK(side_by_side(texts, two_columns) == padded("a") + " | c\n" + padded("bb") + " |\n");
  for (const std::size_t narrow : {std::size_t{0}, two_columns - 1})
    CHECK(side_by_side(texts, narrow) == "a\nbb\nc\n");
  CHECK(side_by_side({"alone\n"}, 500) == "alone\n");
  CHECK(side_by_side({}, 500).empty());
  // What has no room beside the others stands below them.
  CHECK(side_by_side({"1", "2", "3"}, two_columns) == padded("1") + " | 2\n3\n");
  // Room that is left makes columns wider.
  CHECK(side_by_side({"1", "2"}, two_columns + 20) ==
        "1" + std::string(actors::narrowest_column + 9, ' ') + " | 2\n");
}

TEST_CASE("long lines are broken and nothing is left out; no line is wider than the terminal") {
  const std::string line(actors::narrowest_column + 5, 'x');
  const std::string text = side_by_side({line, "y"}, two_columns);
  CHECK(text == line.substr(0, actors::narrowest_column) + " | y\n" + padded("xxxxx") + " |\n");
  // Characters of several bytes take one cell, those of East Asian scripts two, accents none.
  CHECK(side_by_side({"\u00e9", "y"}, two_columns) ==
        "\u00e9" + std::string(actors::narrowest_column - 1, ' ') + " | y\n");
  CHECK(side_by_side({"\u4f60", "y"}, two_columns) ==
        "\u4f60" + std::string(actors::narrowest_column - 2, ' ') + " | y\n");
  CHECK(side_by_side({"e\u0301", "y"}, two_columns) ==
        "e\u0301" + std::string(actors::narrowest_column - 1, ' ') + " | y\n");
  CHECK(side_by_side({"\tb", "y"}, two_columns) == padded("    b") + " | y\n");
  // What a terminal acts on is shown, and counts as it is shown.
  CHECK(side_by_side({"\x1b[31m", "y"}, two_columns) == padded("\\x1b[31m") + " | y\n");
}
