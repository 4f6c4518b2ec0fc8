// Seeded fuzzing of task files: whatever the bytes, a task or an error; a task always round-trips.
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/random.hpp"
#include "env/task/task_codec.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

void check_reads(const std::string& text, int& accepted) {
  const auto parsed = env::parse_task(text);
  if (!parsed) {
    REQUIRE(!parsed.error().message.empty());
    return;
  }
  ++accepted;
  const std::string canonical = env::to_yaml(*parsed);
  const auto again = env::parse_task(canonical);
  REQUIRE_MESSAGE(again.has_value(), canonical);
  REQUIRE(*again == *parsed);
  REQUIRE(env::to_yaml(*again) == canonical);
}

}  // namespace

TEST_CASE("mutated task files are read or refused, and what is read round-trips") {
  std::vector<std::string> seeds;
  for (const auto* name : {"softmax_rows.task.yaml", "gather_scale.canonical.yaml"}) {
    seeds.push_back(base::read_file(test::source_dir() / "tests/golden/task" / name).value());
  }
  const std::vector<std::string> tokens{"{",
                                        "}",
                                        "[",
                                        "]",
                                        ": ",
                                        "- ",
                                        "\n",
                                        "  ",
                                        "|",
                                        "&a ",
                                        "*a ",
                                        "!!int ",
                                        "\"",
                                        "'",
                                        "null",
                                        "~",
                                        "n",
                                        "0",
                                        "1e999",
                                        "-1",
                                        "\t",
                                        "#",
                                        "? ",
                                        "%",
                                        "below: n",
                                        "sizes",
                                        "9223372036854775807",
                                        "\xc3\x28",
                                        std::string(1, '\0')};
  int accepted = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    base::random_stream random(5, "task_fuzz", {i});
    std::string text = seeds[random.below(seeds.size())];
    for (auto edits = 1 + random.below(4); edits > 0; --edits) {
      const std::size_t at = random.below(text.size() + 1);
      switch (random.below(4)) {
        case 0:
          text.insert(at, tokens[random.below(tokens.size())]);
          break;
        case 1:
          text.erase(at, random.below(12));
          break;
        case 2:
          if (at < text.size()) text[at] = static_cast<char>(random.below(256));
          break;
        default: {
          const std::size_t from = random.below(text.size() + 1);
          text.insert(at, text.substr(from, random.below(40)));
        }
      }
    }
    check_reads(text, accepted);
  }
  CHECK(accepted > 100);
}

TEST_CASE("hostile YAML is refused, not followed") {
  int accepted = 0;
  check_reads(std::string(100000, '['), accepted);
  check_reads(std::string(100000, '{'), accepted);
  std::string dashes;
  for (int i = 0; i < 50000; ++i)
    dashes += "- ";
  check_reads(dashes, accepted);
  std::string nested;
  for (int i = 0; i < 500; ++i)
    nested += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  check_reads(nested, accepted);
  std::string laughs = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i) {
    laughs += fmt::format("a{}: &a{} [*a{}, *a{}]\n", i, i, i - 1, i - 1);
  }
  check_reads(laughs, accepted);
  check_reads("&a [*a]", accepted);
  check_reads("&a {quern_task: *a}", accepted);
  CHECK(accepted == 0);
}
