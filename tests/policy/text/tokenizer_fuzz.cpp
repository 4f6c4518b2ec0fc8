// Any bytes survive encoding and decoding; any damaged file gets an answer.
#include <algorithm>
#include <random>

#include "base/file.hpp"
#include "policy/text/goldens.hpp"
#include "policy/text/normalise.hpp"
#include "policy/text/tokenizer.hpp"
#include "policy/text/utf8.hpp"
#include "support/test.hpp"

using namespace quern::policy;
namespace base = quern::base;
using quern::test::tokenizer_goldens;

namespace {

/// Bytes, code points or pieces of source code, valid or not.
std::string random_text(std::mt19937_64& random) {
  std::string text;
  const std::size_t length = random() % 120;
  const auto mode = random() % 4;
  while (text.size() < length) {
    switch (mode == 3 ? random() % 3 : mode) {
      case 0:
        text.push_back(static_cast<char>(random()));
        break;
      case 1: {
        const auto code = static_cast<char32_t>(random() % (random() % 2 ? 0x3000 : 0x110000));
        if (code < 0xD800 || code > 0xDFFF) append_utf8(text, code);
        break;
      }
      default:
        text.push_back(" \t\n\r'sabLL019.(<|im_end|>"[random() % 24]);
        break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("decoding an encoding gives the bytes back") {
  const auto qwen = *tokenizer::load(tokenizer_goldens() / "qwen2");
  const auto llama = *tokenizer::load(tokenizer_goldens() / "llama3");
  std::mt19937_64 random(1);
  int wrong = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string text = random_text(random);
    if (llama.decode(llama.encode(text)) != text) ++wrong;
    if (llama.decode(llama.encode(text, {true, true}), false) != "<|begin_of_text|>" + text)
      ++wrong;
    if (qwen.decode(qwen.encode(text)) != normalise_nfc(text)) ++wrong;
    for (const token_id id : qwen.encode(text))
      if (id < 0 || id >= qwen.vocab_size() || qwen.is_special(id)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("long pieces take n log n, not n squared") {
  // A quadratic encoder would need hours for these; the test's time limit is the check.
  const auto qwen = *tokenizer::load(tokenizer_goldens() / "qwen2");
  std::mt19937_64 random(2);
  std::string letters;
  for (int i = 0; i < 1'000'000; ++i)
    letters.push_back(static_cast<char>('a' + random() % 26));
  CHECK(qwen.decode(qwen.encode(letters)) == letters);
  const std::string spaces(1'000'000, ' ');
  CHECK(qwen.decode(qwen.encode(spaces + "x")) == spaces + "x");
  std::string marks = "a";
  for (int i = 0; i < 100'000; ++i)
    marks += i % 2 ? "\u0301" : "\u0323";
  CHECK(qwen.decode(qwen.encode(marks)) == normalise_nfc(marks));
}

TEST_CASE("damaged tokenizer files are answered") {
  auto whole = base::read_file(tokenizer_goldens() / "llama3" / "tokenizer.json");
  REQUIRE(whole);
  std::mt19937_64 random(3);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string alphabet = "0123456789-.,:[]{}\"\\eEu \xFF";
  int refused = 0;
  int accepted = 0;
  for (int round = 0; round < 400; ++round) {
    std::string text = *whole;
    for (std::size_t i = 0; i < 1 + below(3); ++i) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text[at] = alphabet[below(alphabet.size())];
          break;
        case 2:
          text.erase(at, 1 + below(20));
          break;
        default:
          text.insert(at, text.substr(below(text.size()), below(40)));
          break;
      }
    }
    const auto parsed = tokenizer::parse(text);
    ++(parsed ? accepted : refused);
    if (parsed) {
      const std::string sample = "for (int i = 0; i < 1234; ++i) y[i] = x[i];";
      CHECK(parsed->decode(parsed->encode(sample)).size() >= sample.size());
    }
  }
  MESSAGE("accepted " << accepted << ", refused " << refused);
  CHECK(refused > 100);
}
