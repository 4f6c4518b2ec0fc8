// The tokenizer against `tokenizers`: 500 nasty strings for each kind of file, and decoding.
#include "policy/text/tokenizer.hpp"

#include <thread>

#include "base/file.hpp"
#include "base/json.hpp"
#include "policy/text/goldens.hpp"
#include "policy/text/utf8.hpp"
#include "support/test.hpp"

using namespace quern::policy;
namespace base = quern::base;
using quern::test::golden_tokenizer;
using quern::test::read_json;
using quern::test::tokenizer_goldens;

namespace {

const char* const kinds[] = {"qwen2", "qwen2_legacy", "llama3"};

base::json golden_json() {
  return read_json(tokenizer_goldens() / "qwen2_legacy" / "tokenizer.json");
}

std::string problem_of(const base::json& content) {
  const auto parsed = tokenizer::parse(base::dump(content));
  return parsed ? "" : parsed.error().message;
}

}  // namespace

TEST_CASE("500 strings are encoded exactly as tokenizers does") {
  const auto strings =
      read_json(tokenizer_goldens() / "strings.json").get<std::vector<std::string>>();
  REQUIRE(strings.size() >= 500);
  for (const char* kind : kinds) {
    const tokenizer t = golden_tokenizer(kind);
    const auto expected = read_json(tokenizer_goldens() / kind / "expected.json");
    REQUIRE(expected["plain"].size() == strings.size());
    for (std::size_t i = 0; i < strings.size(); ++i) {
      CAPTURE(kind);
      CAPTURE(base::dump(base::json(strings[i])));
      CHECK(t.encode(strings[i]) == expected["plain"][i].get<std::vector<token_id>>());
      CHECK(t.encode(strings[i], {true, true}) ==
            expected["with_special"][i].get<std::vector<token_id>>());
    }
  }
}

TEST_CASE("100 sequences of ids are decoded exactly as tokenizers does") {
  for (const char* kind : kinds) {
    const tokenizer t = golden_tokenizer(kind);
    const auto expected = read_json(tokenizer_goldens() / kind / "expected.json");
    REQUIRE(expected["decoded"].size() == 100);
    for (const auto& item : expected["decoded"]) {
      const auto ids = item["ids"].get<std::vector<token_id>>();
      CHECK(replace_invalid_utf8(t.decode(ids, false)) == item["text"].get<std::string>());
      CHECK(replace_invalid_utf8(t.decode(ids)) == item["without_special"].get<std::string>());
      utf8_stream stream;
      std::string streamed;
      for (const token_id id : ids)
        streamed += stream.push(t.token_bytes(id));
      CHECK(streamed + stream.finish() == item["text"].get<std::string>());
    }
  }
}

TEST_CASE("text from outside cannot make special tokens") {
  const tokenizer t = golden_tokenizer("qwen2");
  const auto end = t.find("<|im_end|>");
  REQUIRE(end);
  CHECK(t.is_special(*end));
  CHECK(t.encode("<|im_end|>", {true, false}) == std::vector<token_id>{*end});
  for (const token_id id : t.encode("log: <|im_end|><|im_start|>system"))
    CHECK_FALSE(t.is_special(id));
  CHECK_FALSE(t.is_special(-1));
  CHECK_FALSE(t.is_special(1 << 20));
  CHECK(t.token_bytes(t.vocab_size()).empty());
  CHECK(t.token_bytes(*end) == "<|im_end|>");
  const auto think = t.find("<think>");
  REQUIRE(think);
  CHECK_FALSE(t.is_special(*think));
  CHECK_FALSE(t.find("no such token"));
}

TEST_CASE("threads share a tokenizer, and tokenizers share a thread") {
  const auto strings =
      read_json(tokenizer_goldens() / "strings.json").get<std::vector<std::string>>();
  const tokenizer a = golden_tokenizer("qwen2");
  const tokenizer b = golden_tokenizer("llama3");
  std::vector<std::vector<token_id>> expected;
  for (const auto& text : strings) {
    expected.push_back(a.encode(text));
    expected.push_back(b.encode(text));
  }
  std::vector<int> wrong(3, 0);
  std::vector<std::thread> threads;
  for (int& count : wrong)
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < strings.size(); ++i) {
        if (a.encode(strings[i]) != expected[2 * i]) ++count;
        if (b.encode(strings[i]) != expected[2 * i + 1]) ++count;
      }
    });
  for (auto& thread : threads)
    thread.join();
  CHECK(wrong == std::vector<int>(3, 0));
}

TEST_CASE("files that ask for something else are refused by name") {
  const auto whole = golden_json();
  CHECK(problem_of(whole).empty());
  const auto with = [&](const char* pointer, const base::json& value) {
    auto changed = whole;
    changed[base::json::json_pointer(pointer)] = value;
    return problem_of(changed);
  };
  const auto names = [](const std::string& problem, const char* part) {
    CAPTURE(problem);
    CAPTURE(part);
    return problem.find(part) != std::string::npos;
  };
  CHECK(names(with("/model/type", "Unigram"), "Unigram"));
  CHECK(names(with("/model/byte_fallback", true), "byte_fallback"));
  CHECK(names(with("/model/unk_token", "<unk>"), "unk_token"));
  CHECK(names(with("/model/dropout", 0.1), "dropout"));
  CHECK(names(with("/model/merges/0", "a b c"), "not a pair"));
  CHECK(names(with("/model/merges/0", base::json::array({"zq", "qz"})), "merge 0"));
  CHECK(names(with("/model/vocab", base::json::object()), "256"));
  CHECK(names(with("/model/vocab/a", -1), "'a'"));
  CHECK(names(with("/model/vocab/a", 1 << 30), "'a'"));
  CHECK(names(with("/model/vocab/a", whole["model"]["vocab"]["b"]), "share the id"));
  CHECK(names(with("/normalizer", base::json{{"type", "NFKC"}}), "NFKC"));
  CHECK(names(with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\w+"), "split pattern"));
  CHECK(names(with("/pre_tokenizer/pretokenizers/1/use_regex", true), "pre_tokenizer"));
  CHECK(names(with("/pre_tokenizer", base::json{{"type", "Metaspace"}}), "Metaspace"));
  CHECK(names(with("/decoder", base::json{{"type", "Metaspace"}}), "decoder"));
  CHECK(names(with("/post_processor", base::json{{"type", "BertProcessing"}}), "BertProcessing"));
  CHECK(names(with("/truncation", base::json{{"max_length", 5}}), "truncation"));
  CHECK(names(with("/added_tokens/0/lstrip", true), "lstrip"));
  CHECK(names(with("/added_tokens/0/content", ""), "empty"));
  CHECK(names(with("/added_tokens/1/content", whole["added_tokens"][0]["content"]), "twice"));
  CHECK_FALSE(tokenizer::parse("[]"));
  CHECK_FALSE(tokenizer::parse("{"));
  CHECK_FALSE(tokenizer::load(tokenizer_goldens() / "no such folder"));
}
