// Segments of a sample's tokens: what is refused, what is trained, what is masked.
#include "actors/decide/token_segments.hpp"

#include <algorithm>

#include "base/random.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;

using mask = std::vector<std::uint8_t>;
using parts = std::vector<token_segment>;

constexpr auto prompt = token_origin::prompt;
constexpr auto policy_made = token_origin::policy;
constexpr auto environment = token_origin::environment;

/// A prompt, an attempt, what the compiler said, another attempt.
parts two_turns() {
  return {
      {3, prompt, false}, {2, policy_made, true}, {4, environment, false}, {3, policy_made, true}};
}

/// Any list that the check lets through, of up to 8 segments of up to 6 tokens.
parts random_parts(base::random_stream& random) {
  parts list;
  const auto count = random.between(1, 8);
  for (std::int64_t i = 0; i < count; ++i) {
    token_segment part{random.between(1, 6), static_cast<token_origin>(random.below(3)), false};
    if (i == 0 && part.origin == policy_made) part.origin = prompt;
    part.trained = part.origin == policy_made && random.chance(0.7);
    list.push_back(part);
  }
  return list;
}

std::int64_t tokens_in(const parts& list) {
  std::int64_t sum = 0;
  for (const token_segment& part : list)
    sum += part.length;
  return sum;
}

/// The refusal's text.
std::string refusal(const parts& list, std::int64_t tokens, std::int64_t log_probs) {
  const auto checked = check_segments(list, tokens, log_probs);
  REQUIRE_FALSE(checked);
  CHECK(checked.error().code == base::errc::invalid_argument);
  return checked.error().message;
}

TEST_CASE("two turns train the policy's tokens and no others") {
  CHECK(check_segments(two_turns(), 12, 5));
  CHECK(policy_tokens(two_turns()) == 5);
  CHECK(loss_mask(two_turns()) == mask{0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1});
  CHECK(by_token(two_turns(), std::vector<int>{1, 2, 3, 4, 5}, -7) ==
        std::vector<int>{-7, -7, -7, 1, 2, -7, -7, -7, -7, 3, 4, 5});
}

TEST_CASE("a policy's segment that is not trained keeps its log-probs and leaves the loss") {
  parts list = two_turns();
  list[1].trained = false;
  CHECK(check_segments(list, 12, 5));
  CHECK(policy_tokens(list) == 5);
  CHECK(loss_mask(list) == mask{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1});
}

TEST_CASE("one turn is a prompt and a completion") {
  CHECK(single_turn(3, 2) == parts{{3, prompt, false}, {2, policy_made, true}});
  CHECK(single_turn(3, 0) == parts{{3, prompt, false}});
  CHECK(single_turn(0, 0).empty());
}

TEST_CASE("segments that do not fit are refused with the numbers") {
  CHECK(test::contains(refusal({}, 12, 0), "12 tokens have no segments"));
  parts list = two_turns();
  CHECK(test::contains(refusal(list, 13, 5), "4 segments cover 12 of 13 tokens"));
  CHECK(test::contains(refusal(list, 11, 5), "segment 3 (policy) has 3 tokens, but only 2 of 11"));
  CHECK(test::contains(refusal(list, 12, 6), "have 5 tokens, and 6 log-probs"));
  CHECK(test::contains(refusal(list, 12, 12), "have 5 tokens, and 12 log-probs"));
  list[2].trained = true;
  CHECK(test::contains(refusal(list, 12, 5), "segment 2 (environment, 4 tokens) is trained"));
  list[2] = {0, environment, false};
  CHECK(test::contains(refusal(list, 8, 5), "segment 2 (environment) has 0 tokens"));
  list[2].length = -4;
  CHECK(test::contains(refusal(list, 12, 5), "segment 2 (environment) has -4 tokens"));
  list[2] = {4, static_cast<token_origin>(3), false};
  CHECK(test::contains(refusal(list, 12, 5), "segment 2 has origin 3, known are 0 to 2"));
  CHECK(test::contains(refusal({{2, policy_made, true}, {1, prompt, false}}, 3, 2),
                       "the policy's 2 tokens stand at the beginning"));
  // The sum of these lengths is 3 in 64 bits.
  constexpr std::int64_t half = std::int64_t{1} << 62;
  refusal({{half, prompt, false},
           {half, prompt, false},
           {half, prompt, false},
           {half, prompt, false},
           {3, prompt, false}},
          3, 0);
}

TEST_CASE("blocks are counted in whole numbers") {
  const std::string tokens = to_block<std::int32_t>({1, 2, 3});
  const std::string log_probs = to_block<float>({-1});
  const parts list = single_turn(2, 1);
  CHECK(check_segments(list, tokens, log_probs));
  CHECK_FALSE(check_segments(list, tokens + "x", log_probs));
  CHECK_FALSE(check_segments(list, tokens, log_probs.substr(1)));
  CHECK_FALSE(check_segments(list, tokens, log_probs + log_probs));
}

TEST_CASE("the head that is masked goes by the policy's tokens") {
  const parts list = two_turns();
  CHECK(mask_head(list, 0) == list);
  CHECK(mask_head(list, 1) == parts{{3, prompt, false},
                                    {1, policy_made, false},
                                    {1, policy_made, true},
                                    {4, environment, false},
                                    {3, policy_made, true}});
  parts first_out = list;
  first_out[1].trained = false;
  CHECK(mask_head(list, 2) == first_out);
  CHECK(loss_mask(mask_head(list, 4)) == mask{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  CHECK(loss_mask(mask_head(list, 5)) == mask(12, 0));
  CHECK(loss_mask(mask_head(list, 100)) == mask(12, 0));
  // A segment that is out of the loss counts, too, and stays whole.
  CHECK(mask_head(first_out, 1) == first_out);
  CHECK(loss_mask(mask_head(first_out, 3)) == mask{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1});
}

TEST_CASE("masking takes the policy's first tokens out of the loss and changes nothing else") {
  base::random_stream random(1, "token segments");
  for (int round = 0; round < 2000; ++round) {
    const parts list = random_parts(random);
    const std::int64_t sampled = policy_tokens(list);
    REQUIRE(check_segments(list, tokens_in(list), sampled));
    const auto count = random.between(0, sampled + 2);
    const parts masked = mask_head(list, count);
    CHECK(check_segments(masked, tokens_in(list), sampled));
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < sampled; ++i)
      order.push_back(i);
    const auto places = by_token(list, order, std::int64_t{-1});
    const mask before = loss_mask(list);
    const mask after = loss_mask(masked);
    REQUIRE(places.size() == before.size());
    REQUIRE(places.size() == after.size());
    bool right = by_token(masked, order, std::int64_t{-1}) == places;
    for (std::size_t i = 0; i < places.size(); ++i)
      right = right && after[i] == (places[i] >= count ? before[i] : 0) &&
              (before[i] == 0 || places[i] >= 0);
    CHECK(right);
  }
}

}  // namespace
