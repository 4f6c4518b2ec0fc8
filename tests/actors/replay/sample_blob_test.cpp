// What a generator made survives storage; bytes that are not such a blob are refused.
#include "actors/replay/sample_blob.hpp"

#include "base/random.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

generated_sample example() {
  generated_sample sample;
  sample.prompt_tokens = to_block<std::int32_t>({1, 2, 3});
  sample.tokens = to_block<std::int32_t>({7, 8});
  sample.log_probs = to_block<float>({-0.5F, -1e30F});
  sample.text = "## Code";
  sample.truncated = true;
  return sample;
}

}  // namespace

TEST_CASE("a sample comes back as it was stored") {
  const auto back = decode_sample(encode_sample(example()));
  REQUIRE(back);
  CHECK(back->prompt_tokens == example().prompt_tokens);
  CHECK(from_block<float>(back->log_probs) == std::vector<float>{-0.5F, -1e30F});
  CHECK(back->text == "## Code");
  CHECK(back->truncated);
}

TEST_CASE("another version, a torn blob and unequal lengths are refused") {
  std::string blob = encode_sample(example());
  for (std::size_t length = 0; length < blob.size(); ++length) {
    CHECK_FALSE(decode_sample(std::string_view(blob).substr(0, length)));
  }
  blob[0] = 9;
  CHECK(decode_sample(blob).error().code == base::errc::version);
  generated_sample uneven = example();
  uneven.log_probs.clear();
  CHECK(decode_sample(encode_sample(uneven)).error().code == base::errc::corrupt);
}

TEST_CASE("mutated blobs never crash") {
  const std::string blob = encode_sample(example());
  base::random_stream random(1, "blob fuzz");
  for (int round = 0; round < 5000; ++round) {
    std::string mutated = blob;
    for (int i = 0; i < 3; ++i) {
      mutated[random.below(mutated.size())] = static_cast<char>(random.below(256));
    }
    const auto back = decode_sample(mutated);
    if (back) CHECK(back->tokens.size() == back->log_probs.size());
  }
}
