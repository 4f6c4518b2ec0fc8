// From a sample of any number of turns to what the trainer takes, and its rows.
#include <map>

#include "actors/workers/learning_worker.hpp"
#include "policy/engine/sequence.hpp"
#include "policy/engine/small_models.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

using tokens = std::vector<std::int32_t>;
using mask = std::vector<std::uint8_t>;
using floats = std::vector<float>;
using versions = std::vector<std::int64_t>;

training_sample one_turn() {
  training_sample sample;
  sample.sample = 17;
  sample.tokens = to_block<std::int32_t>({5, 6, 7, 8, 9});
  sample.segments = single_turn(2, 3);
  sample.log_probs = to_block<float>({-0.1F, -0.2F, -0.3F});
  sample.versions = {{0, 4, {}}, {2, 5, {}}};
  return sample;
}

/// A prompt of 4 tokens, 2 by the policy, 3 of a compiler, 3 by the policy. New weights came before
/// the second and the fourth of the policy's tokens. `seed` changes the last turn.
training_sample two_turns(std::int32_t seed = 0) {
  training_sample sample;
  sample.sample = 18 + seed;
  sample.tokens = to_block<std::int32_t>(
      {5, 6, 7, 8, 9, 10, 11, 12, 13 + seed, 14 + seed, 15 + seed, 16 + seed});
  sample.segments = {{4, token_origin::prompt, false},
                     {2, token_origin::policy, true},
                     {3, token_origin::environment, false},
                     {3, token_origin::policy, true}};
  sample.log_probs = to_block<float>({-0.1F, -0.2F, -0.3F, -0.4F, -0.5F});
  sample.versions = {{0, 4, {}}, {1, 5, {}}, {3, 6, {}}};
  return sample;
}

policy::training_sequence sequence_of(const training_sample& sample) {
  auto made = to_sequence(sample, 0.5, 1.25);
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  return std::move(*made);
}

policy::model_config model() {
  return test::small_config(policy::architecture::qwen3);
}

std::vector<policy::micro_batch> packed(const std::vector<policy::training_sequence>& batch,
                                        bool share_prompts) {
  policy::packing how;
  how.share_prompts = share_prompts;
  auto made = policy::pack(model(), batch, how, at::kCPU);
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  return std::move(*made);
}

}  // namespace

TEST_CASE("one turn is prompt and completion, as before there were segments") {
  const policy::training_sequence made = sequence_of(one_turn());
  CHECK(made.tokens == tokens{5, 6, 7, 8, 9});
  CHECK(made.loss_mask == mask{0, 0, 1, 1, 1});
  CHECK(made.behaviour_log_probs == floats{0, 0, -0.1F, -0.2F, -0.3F});
  CHECK(made.versions == versions{0, 0, 4, 4, 5});
  CHECK(made.advantage == 0.5);
  CHECK(made.temperature == 1.25);
  CHECK(made.proximal_log_probs.empty());
  CHECK(made.reference_log_probs.empty());
  training_sample stale = one_turn();
  stale.segments = mask_head(stale.segments, 2);
  const policy::training_sequence masked = sequence_of(stale);
  CHECK(masked.loss_mask == mask{0, 0, 0, 0, 1});
  CHECK(masked.behaviour_log_probs == made.behaviour_log_probs);
  CHECK(masked.versions == made.versions);
}

TEST_CASE("two turns train the policy's tokens, each with its log-prob and version") {
  const policy::training_sequence made = sequence_of(two_turns());
  CHECK(made.tokens == tokens{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
  CHECK(made.loss_mask == mask{0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1});
  CHECK(made.behaviour_log_probs == floats{0, 0, 0, 0, -0.1F, -0.2F, 0, 0, 0, -0.3F, -0.4F, -0.5F});
  CHECK(made.versions == versions{0, 0, 0, 0, 4, 5, 0, 0, 0, 5, 6, 6});
  CHECK(policy::check(model(), std::vector{made}));
  CHECK(policy::count(std::vector{made}).tokens == 5);
  training_sample second_alone = two_turns();
  second_alone.segments[1].trained = false;
  CHECK(sequence_of(second_alone).loss_mask == mask{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1});
}

TEST_CASE("each trained token of any turn is predicted from the token before it") {
  for (const bool shared : {false, true}) {
    CAPTURE(shared);
    const std::vector<policy::training_sequence> group = {sequence_of(two_turns(0)),
                                                          sequence_of(two_turns(1))};
    const auto batches = packed(group, shared);
    REQUIRE(batches.size() == 1);
    // The prompt's four rows once or twice; the last token of a sequence has none.
    CHECK(batches[0].rows.tokens.numel() == (shared ? 4 + 7 + 7 : 11 + 11));
    const auto* token_of_row = batches[0].rows.tokens.const_data_ptr<std::int64_t>();
    const auto* position_of_row = batches[0].rows.positions.const_data_ptr<std::int64_t>();
    std::map<std::int32_t, tokens> predicted;
    for (const policy::prediction& each : batches[0].predictions) {
      const auto& s = group[static_cast<std::size_t>(each.sequence)];
      predicted[each.sequence].push_back(each.token);
      CHECK(token_of_row[each.row] == s.tokens[static_cast<std::size_t>(each.token) - 1]);
      CHECK(position_of_row[each.row] == each.token - 1);
    }
    CHECK(predicted[0] == tokens{4, 5, 9, 10, 11});
    CHECK(predicted[1] == predicted[0]);
  }
}

TEST_CASE("a sample that does not fit its segments or versions is refused by number") {
  training_sample bad = two_turns();
  bad.segments[3].length = 2;
  auto refused = to_sequence(bad, 1, 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "sample 18: 4 segments cover 11 of 12 tokens");
  for (const std::int64_t first : {-1, 5}) {
    bad = two_turns();
    bad.versions.back().first_token = first;
    refused = to_sequence(bad, 1, 1);
    REQUIRE_FALSE(refused);
    CHECK(test::contains(refused.error().message, "sample 18: version 6 begins at token"));
    CHECK(test::contains(refused.error().message, "of the policy's 5"));
  }
}
