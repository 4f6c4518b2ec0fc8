// Completions: every reason has a text that gives it; what is written reads back; fuzzing.
#include "env/prompt/completion.hpp"

#include <set>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "support/test.hpp"

using namespace quern;
using env::completion;
using env::malformed_reason;

namespace {

const std::string good =
    "## Performance Analysis\nThe second is faster.\n## Algorithm Design\nOne pass.\n## "
    "Code\n```cpp\nint x;\n```\n";

std::string reason_of(std::string_view text) {
  const auto parsed = env::parse_completion(text);
  if (parsed) return "read";
  CHECK(!parsed.error().detail.empty());
  return std::string(env::name_of(parsed.error().reason));
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a completion is taken apart") {
  const auto parsed = env::parse_completion(good);
  REQUIRE(parsed.has_value());
  CHECK(parsed->analysis == "The second is faster.");
  CHECK(parsed->design == "One pass.");
  CHECK(parsed->code == "int x;\n");
}

TEST_CASE("every way to get it wrong has its name") {
  CHECK(reason_of("") == "empty");
  CHECK(reason_of(" \n\t\r\n") == "empty");
  CHECK(reason_of(good + std::string(env::max_completion_bytes, 'x')) == "too_long");
  CHECK(reason_of(good + std::string(1, '\0')) == "bad_bytes");
  CHECK(reason_of(good + "\xc3") == "bad_bytes");
  CHECK(reason_of(good + "\xc0\xaf") == "bad_bytes");
  CHECK(reason_of(good + "\xed\xa0\x80") == "bad_bytes");
  CHECK(reason_of(good + "\xf4\x90\x80\x80") == "bad_bytes");
  CHECK(reason_of(good + "\xff") == "bad_bytes");
  CHECK(reason_of("int x;") == "missing_section");
  CHECK(reason_of(replaced(good, "## Algorithm Design\n", "")) == "missing_section");
  CHECK(reason_of(replaced(good, "## Code", "### Code")) == "missing_section");
  CHECK(reason_of(replaced(good, "## Code", "##Code")) == "missing_section");
  CHECK(reason_of(replaced(good, "## Code", " ## Code")) == "missing_section");
  CHECK(reason_of(replaced(good, "## Code", "## Code Implementation")) == "missing_section");
  CHECK(reason_of(good + good) == "duplicate_section");
  CHECK(reason_of("## Algorithm Design\n" + replaced(good, "## Algorithm Design\n", "")) ==
        "section_order");
  CHECK(reason_of(replaced(replaced(good, "```cpp\n", ""), "```\n", "")) == "no_code_block");
  CHECK(reason_of(good + "```\nint y;\n```\n") == "several_code_blocks");
  CHECK(reason_of(replaced(good, "int x;\n```", "int x;\n")) == "unterminated_code_block");
  CHECK(reason_of(replaced(good, "One pass.", "One pass:\n```\nfor")) == "missing_section");
  CHECK(reason_of(replaced(good, "int x;\n", "")) == "empty_code");
  CHECK(reason_of(replaced(good, "int x;\n", "  \n\n")) == "empty_code");
}

TEST_CASE("an open fence before the code swallows the headings and is named as the cause") {
  CHECK(
      reason_of("## Performance Analysis\n```\nfor\n## Algorithm Design\nx\n## Code\nno fences") ==
      "unterminated_code_block");
}

TEST_CASE("what models write around the sections does no harm") {
  CHECK(reason_of("Sure, here it is.\n\n" + good + "\nThis should be fast.\n") == "read");
  CHECK(reason_of(replaced(good, "## Code\n", "## Code  \nAs designed:\n\n")) == "read");
  CHECK(reason_of(replaced(good, "One pass.", "One pass, like\n```\n## Code\n```\nbut faster.")) ==
        "read");
  CHECK(env::parse_completion("<think>\n## Code\n```\nunfinished\n</think>\n" + good)->code ==
        "int x;\n");
  CHECK(env::parse_completion("thoughts without a beginning </think>\n\n" + good)->code ==
        "int x;\n");
  std::string windows = good;
  for (std::size_t at = 0; (at = windows.find('\n', at)) != std::string::npos; at += 2)
    windows.insert(at, "\r");
  CHECK(reason_of(windows) == "read");
  CHECK(env::parse_completion(replaced(good, "```\n", "```"))->code == "int x;\n");
  CHECK(env::parse_completion(
            replaced(good, "The second", "Die zweite \xc3\xb6\xe2\x82\xac\xf0\x9f\x99\x82"))
            ->code == "int x;\n");
  // A longer fence holds shorter ones.
  CHECK(env::parse_completion(
            replaced(replaced(good, "```cpp", "````cpp"), "int x;\n```", "// ```\nint x;\n````"))
            ->code == "// ```\nint x;\n");
}

TEST_CASE("names of the reasons are a closed list") {
  std::set<std::string_view> names;
  for (int i = 0; i < env::malformed_reason_count; ++i) {
    const auto reason = static_cast<malformed_reason>(i);
    CHECK(names.insert(env::name_of(reason)).second);
    CHECK(env::parse_malformed_reason(env::name_of(reason)) == reason);
  }
  CHECK_FALSE(env::parse_malformed_reason("bad").has_value());
}

TEST_CASE("what is rendered reads back, fences in the code included") {
  const std::vector<completion> all{
      {"a", "b", "c\n"},
      {"two\n\nlines", "x", "  indented;\n\n// ``` and ```` ticks\nend\n"},
      {"", "", "int y;\n"},
      {"see\n```\n## Code\n```", "d", "```\n"}};
  for (const completion& one : all) {
    const auto parsed = env::parse_completion(env::render_completion(one, "cpp"));
    REQUIRE_MESSAGE(parsed.has_value(), env::render_completion(one, "cpp"));
    CHECK(*parsed == one);
  }
}

TEST_CASE(
    "random assemblies of parts are read or refused, and what is read renders and reads again") {
  const std::vector<std::string> parts{"## Performance Analysis\n",
                                       "## Algorithm Design\n",
                                       "## Code\n",
                                       "```\n",
                                       "```cpp\n",
                                       "````\n",
                                       "   ```\n",
                                       "    ```\n",
                                       "int x;\n",
                                       "\n",
                                       "text ",
                                       "\r\n",
                                       "</think>\n",
                                       "## ",
                                       "`",
                                       "\xc3\xa4",
                                       "\xff",
                                       "`` `\n"};
  int read = 0;
  std::set<std::string> reasons;
  for (std::uint64_t i = 0; i < 60000; ++i) {
    base::random_stream random(11, "completion_fuzz", {i});
    std::string text;
    if (random.chance(0.7)) {
      text = good;
      for (auto edits = random.below(3); edits > 0; --edits) {
        const std::size_t at = random.below(text.size() + 1);
        if (random.chance(0.5))
          text.insert(at, parts[random.below(parts.size())]);
        else
          text.erase(at, random.below(30));
      }
    } else {
      for (auto left = random.below(14); left > 0; --left)
        text += parts[random.below(parts.size())];
    }
    const auto parsed = env::parse_completion(text);
    if (!parsed) {
      reasons.insert(std::string(env::name_of(parsed.error().reason)));
      continue;
    }
    ++read;
    REQUIRE(!parsed->code.empty());
    REQUIRE(parsed->code.ends_with('\n'));
    const auto again = env::parse_completion(env::render_completion(*parsed, "text"));
    REQUIRE_MESSAGE(again.has_value(), text);
    REQUIRE(*again == *parsed);
  }
  CHECK(read > 5000);
  CHECK(reasons.size() >= 8);
}

TEST_CASE("random bytes never crash the parser") {
  for (std::uint64_t i = 0; i < 20000; ++i) {
    base::random_stream random(12, "completion_bytes", {i});
    std::string text;
    for (auto left = random.below(80); left > 0; --left)
      text += static_cast<char>(random.below(256));
    const auto parts = env::parse_completion(text);
    CHECK((parts || !parts.error().detail.empty()));
  }
}

TEST_CASE("code with a line that would close thoughts is read back") {
  const env::completion what{"a", "b", "x;  // </think>\ny;\n"};
  const auto again = env::parse_completion(env::render_completion(what, ""));
  REQUIRE(again.has_value());
  CHECK(*again == what);
}
