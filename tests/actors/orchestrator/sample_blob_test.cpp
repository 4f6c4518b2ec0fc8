// What a generator made survives storage; bytes that are not such a blob are refused.
#include "actors/orchestrator/sample_blob.hpp"

#include "base/random.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using namespace std::string_literals;

namespace {

/// Two turns.
generated_sample example() {
  generated_sample sample;
  sample.tokens = to_block<std::int32_t>({1, 2, 3, 7, 8, 5, 9});
  sample.segments = {{3, token_origin::prompt, false},
                     {2, token_origin::policy, false},
                     {1, token_origin::environment, false},
                     {1, token_origin::policy, true}};
  sample.log_probs = to_block<float>({-0.5F, -1e30F, -0.25F});
  sample.text = "## Code";
  sample.truncated = true;
  return sample;
}

void check_equal(const generated_sample& a, const generated_sample& b) {
  CHECK(a.tokens == b.tokens);
  CHECK(a.segments == b.segments);
  CHECK(a.log_probs == b.log_probs);
  CHECK(a.text == b.text);
  CHECK(a.truncated == b.truncated);
}

/// As builds wrote it before samples had segments: prompt 1 2 3, completion 7 8, log-probs -0.5 and
/// -2, "## Code", truncated.
std::string form_1() {
  return "\x01"s + "\x01"s +                                              //
         "\x0c\0\0\0"s + "\x01\0\0\0"s + "\x02\0\0\0"s + "\x03\0\0\0"s +  //
         "\x08\0\0\0"s + "\x07\0\0\0"s + "\x08\0\0\0"s +                  //
         "\x08\0\0\0"s + "\x00\x00\x00\xbf"s + "\x00\x00\x00\xc0"s +      //
         "\x07\0\0\0"s + "## Code"s;
}

/// What `example` is stored as.
std::string form_2() {
  return "\x02"s + "\x01"s +                                                                //
         "\x1c\0\0\0"s + "\x01\0\0\0"s + "\x02\0\0\0"s + "\x03\0\0\0"s +                    //
         "\x07\0\0\0"s + "\x08\0\0\0"s + "\x05\0\0\0"s + "\x09\0\0\0"s +                    //
         "\x04\0\0\0"s +                                                                    //
         "\x03\0\0\0\x00\x00"s + "\x02\0\0\0\x01\x00"s +                                    //
         "\x01\0\0\0\x02\x00"s + "\x01\0\0\0\x01\x01"s +                                    //
         "\x0c\0\0\0"s + "\x00\x00\x00\xbf"s + "\xca\xf2\x49\xf1"s + "\x00\x00\x80\xbe"s +  //
         "\x07\0\0\0"s + "## Code"s;
}

/// Up to 8 segments of up to 40 tokens, with everything that belongs to them.
generated_sample random_sample(base::random_stream& random) {
  generated_sample sample;
  const auto count = random.between(1, 8);
  std::vector<std::int32_t> tokens;
  std::vector<float> log_probs;
  for (std::int64_t i = 0; i < count; ++i) {
    token_segment part{random.between(1, 40), static_cast<token_origin>(random.below(3)), false};
    if (i == 0) part.origin = token_origin::prompt;
    const bool of_policy = part.origin == token_origin::policy;
    part.trained = of_policy && random.chance(0.5);
    for (std::int64_t t = 0; t < part.length; ++t) {
      tokens.push_back(static_cast<std::int32_t>(random.below(150'000)));
      if (of_policy) log_probs.push_back(-static_cast<float>(random.uniform()));
    }
    sample.segments.push_back(part);
  }
  sample.tokens = to_block(tokens);
  sample.log_probs = to_block(log_probs);
  sample.text = std::string(random.below(30), 'x');
  sample.truncated = random.chance(0.5);
  return sample;
}

}  // namespace

TEST_CASE("a sample comes back as it was stored, byte by byte as documented") {
  CHECK(encode_sample(example()) == form_2());
  const auto back = decode_sample(form_2());
  REQUIRE_MESSAGE(back, (back ? "" : back.error().message));
  check_equal(*back, example());
}

TEST_CASE("any list of segments comes back as it was stored") {
  base::random_stream random(2, "sample blobs");
  for (int round = 0; round < 500; ++round) {
    const generated_sample sample = random_sample(random);
    const auto back = decode_sample(encode_sample(sample));
    REQUIRE_MESSAGE(back, (back ? "" : back.error().message));
    check_equal(*back, sample);
  }
}

TEST_CASE("samples of runs before there were segments are read as one turn") {
  const auto back = decode_sample(form_1());
  REQUIRE_MESSAGE(back, (back ? "" : back.error().message));
  generated_sample expected;
  expected.tokens = to_block<std::int32_t>({1, 2, 3, 7, 8});
  expected.segments = single_turn(3, 2);
  expected.log_probs = to_block<float>({-0.5F, -2.0F});
  expected.text = "## Code";
  expected.truncated = true;
  check_equal(*back, expected);
  // What is written from it is form 2.
  const auto again = decode_sample(encode_sample(*back));
  REQUIRE(again);
  check_equal(*again, expected);
}

TEST_CASE("another form, a torn blob and segments that do not fit are refused") {
  for (const std::string& whole : {form_1(), form_2()}) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      CHECK_FALSE(decode_sample(std::string_view(whole).substr(0, length)));
    }
    CHECK(decode_sample(whole + "x").error().code == base::errc::corrupt);
  }
  std::string other = form_2();
  for (const char form : {'\0', '\3', '\x09'}) {
    other[0] = form;
    const auto refused = decode_sample(other);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == base::errc::version);
    CHECK(test::contains(refused.error().message, "this build knows 1 and 2"));
  }
  generated_sample uneven = example();
  uneven.log_probs.clear();
  CHECK(decode_sample(encode_sample(uneven)).error().code == base::errc::corrupt);
  uneven = example();
  uneven.segments[2].length = 2;
  CHECK(decode_sample(encode_sample(uneven)).error().code == base::errc::corrupt);
  uneven = example();
  uneven.segments[2].trained = true;
  CHECK(decode_sample(encode_sample(uneven)).error().code == base::errc::corrupt);
  uneven = example();
  uneven.segments.clear();
  CHECK(decode_sample(encode_sample(uneven)).error().code == base::errc::corrupt);
  std::string one_log_prob_less = form_1();
  one_log_prob_less.replace(one_log_prob_less.size() - 23, 12, "\x04\0\0\0\x00\x00\x00\xbf"s);
  CHECK(decode_sample(one_log_prob_less).error().code == base::errc::corrupt);
}

TEST_CASE("mutated blobs never crash") {
  base::random_stream random(1, "blob fuzz");
  for (const std::string& blob : {form_1(), form_2()}) {
    for (int round = 0; round < 5000; ++round) {
      std::string mutated = blob;
      for (int i = 0; i < 3; ++i) {
        mutated[random.below(mutated.size())] = static_cast<char>(random.below(256));
      }
      const auto back = decode_sample(mutated);
      if (back) CHECK(check_segments(back->segments, back->tokens, back->log_probs));
    }
  }
}
