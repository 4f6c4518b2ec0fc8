// JSON's edge: errors instead of exceptions, for any bytes.
#include "base/json.hpp"

#include "base/random.hpp"
#include "support/test.hpp"

using namespace quern::base;

TEST_CASE("typed reads name the key and what was found") {
  const json object = parse_json(R"({"n": -3, "big": 18446744073709551615, "s": "x"})").value();
  CHECK(get<std::int64_t>(object, "n").value() == -3);
  CHECK(get<std::uint64_t>(object, "big").value() == 18446744073709551615ULL);
  CHECK_FALSE(get<std::uint64_t>(object, "n"));
  CHECK_FALSE(get<std::int64_t>(object, "big"));
  CHECK(get<std::string>(object, "n").error().message.find("'n' must be text") == 0);
  CHECK(get<bool>(object, "absent").error().message == "'absent' is missing");
}

TEST_CASE("nesting has a limit") {
  CHECK(parse_json(std::string(60, '[') + std::string(60, ']')));
  CHECK_FALSE(parse_json(std::string(100000, '[')));
  CHECK(parse_json("[[1]]", 2));
  CHECK(parse_json("[[1]]", 1).error().message == "JSON nests deeper than 1 levels");
  CHECK(parse_json(R"({"a": [1], "b": {"c": 2}})", 2));
  // Brackets in texts are no nesting, wherever a text ends.
  CHECK(parse_json(R"(["[[[[", "\"[[[[", "\\", "]"])", 1));
  CHECK_FALSE(parse_json(R"(["\\", [1]])", 1));
  CHECK_FALSE(parse_json("]]]][", 1));
}

TEST_CASE("many members are read in a time that grows with their number") {
  // With the square of it, this would take minutes.
  std::string text = "{";
  for (int i = 0; i < 200000; ++i)
    text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":{}";
  CHECK(parse_json(text + "}")->size() == 200000);
}

TEST_CASE("random bytes never throw") {
  random_stream random(1, "json fuzz");
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const auto length = random.below(24);
    for (std::uint64_t i = 0; i < length; ++i) {
      constexpr std::string_view likely = "{}[]\",:0123456789.eE-tfn\\u \xc3\xff";
      text.push_back(likely[random.below(likely.size())]);
    }
    const auto parsed = parse_json(text);
    if (parsed) CHECK_FALSE(dump(*parsed).empty());
  }
}
