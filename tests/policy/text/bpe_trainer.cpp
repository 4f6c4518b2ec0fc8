// Training a vocabulary: a case worked out by hand, determinism, and a golden file that
// `tokenizers` loads.
#include "policy/text/bpe_trainer.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/file.hpp"
#include "base/json.hpp"
#include "policy/text/goldens.hpp"
#include "policy/text/tokenizer.hpp"
#include "support/test.hpp"

using namespace quern::policy;
namespace base = quern::base;
using quern::test::tokenizer_goldens;

namespace {

std::vector<std::string> golden_strings() {
  return quern::test::read_json(tokenizer_goldens() / "strings.json")
      .get<std::vector<std::string>>();
}

std::string train(const std::vector<std::string>& texts, const bpe_training& options) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  auto trained = train_bpe(views, options);
  REQUIRE_MESSAGE(trained, (trained ? "" : trained.error().message));
  return *trained;
}

bpe_training golden_options() {
  bpe_training options;
  options.vocab_size = 420;
  options.special_tokens = {"<|begin|>", "<|end|>", "<|pad|>"};
  options.begin_token = "<|begin|>";
  return options;
}

}  // namespace

TEST_CASE("the most frequent pair first, of equals the smaller ids") {
  bpe_training options;
  options.vocab_size = 259;
  // ab: 3 + 1 (in abc), bc: 1 + 3; xy: 3. "ab" has the smaller ids.
  const auto made = base::parse_json(
      train({"ab", "ab", "ab", "abc", "bc", "bc", "bc", "xy", "xy", "xy"}, options));
  const auto merges = (*made)["model"]["merges"].get<std::vector<std::vector<std::string>>>();
  // After ab is merged, bc is left in three words: as often as xy, and smaller.
  CHECK(merges == std::vector<std::vector<std::string>>{{"a", "b"}, {"b", "c"}, {"x", "y"}});
  CHECK((*made)["model"]["vocab"]["ab"] == 256);
  CHECK((*made)["model"]["vocab"]["xy"] == 258);
}

TEST_CASE("pairs that are rare, or make too long a token, are not merged") {
  bpe_training options;
  options.vocab_size = 300;
  options.min_count = 3;
  auto made = *base::parse_json(train({"ab", "ab", "cd", "cd", "cd"}, options));
  CHECK(made["model"]["merges"].size() == 1);
  options.min_count = 2;
  options.max_token_bytes = 3;
  made = *base::parse_json(train({"aaaaaaaa", "aaaaaaaa"}, options));
  for (const auto& [spelling, id] : made["model"]["vocab"].items())
    if (id.get<int>() >= 256) CHECK(spelling.size() <= 3);
  CHECK(made["model"]["merges"].size() >= 1);
}

TEST_CASE("the order of the texts does not matter") {
  auto texts = golden_strings();
  const auto first = train(texts, golden_options());
  std::reverse(texts.begin(), texts.end());
  CHECK(train(texts, golden_options()) == first);
}

TEST_CASE("the trained file is the golden one, and encodes as tokenizers does with it") {
  const auto trained = train(golden_strings(), golden_options());
  const auto file = tokenizer_goldens() / "trained" / "tokenizer.json";
  if (std::getenv("QUERN_WRITE_GOLDENS") != nullptr) {
    REQUIRE(base::make_folders(file.parent_path()));
    REQUIRE(base::write_file_atomic(file, trained));
  }
  const auto golden = base::read_file(file);
  REQUIRE(golden);
  CHECK(trained == *golden);

  const auto loaded = tokenizer::parse(trained);
  REQUIRE_MESSAGE(loaded, (loaded ? "" : loaded.error().message));
  CHECK(loaded->vocab_size() == 420);
  CHECK(loaded->is_special(419));
  CHECK(loaded->token_bytes(417) == "<|begin|>");
  CHECK(loaded->encode("", {false, true}) == std::vector<token_id>{417});
  const auto expected_text = base::read_file(tokenizer_goldens() / "trained" / "expected.json");
  REQUIRE(expected_text);
  const auto expected = *base::parse_json(*expected_text);
  const auto strings = golden_strings();
  for (std::size_t i = 0; i < strings.size(); ++i) {
    CAPTURE(base::dump(base::json(strings[i])));
    CHECK(loaded->encode(strings[i]) == expected["plain"][i].get<std::vector<token_id>>());
    CHECK(loaded->encode(strings[i], {true, true}) ==
          expected["with_special"][i].get<std::vector<token_id>>());
    CHECK(loaded->decode(loaded->encode(strings[i])) == strings[i]);
  }
}

TEST_CASE("the Llama-3 pattern keeps digits together") {
  bpe_training options;
  options.vocab_size = 258;
  options.pattern = split_pattern::llama3;
  const auto trained = tokenizer::parse(train({"123", "123", "123"}, options));
  REQUIRE(trained);
  CHECK(trained->encode("123123").size() == 2);
}

TEST_CASE("options that cannot be are refused") {
  const auto refused = [](const bpe_training& options) {
    const auto trained = train_bpe({}, options);
    return !trained && !trained.error().message.empty();
  };
  auto options = golden_options();
  options.vocab_size = 258;
  CHECK(refused(options));
  options = golden_options();
  options.special_tokens.push_back("<|end|>");
  CHECK(refused(options));
  options = golden_options();
  options.begin_token = "<|other|>";
  CHECK(refused(options));
  options = golden_options();
  options.min_count = 0;
  CHECK(refused(options));
}
