// What is printed is what is computed: numbers in force appear, terms that are off do not.
#include "policy/loss/explain.hpp"

#include <string>

#include "support/test.hpp"

using namespace quern::policy;

namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("every preset explains itself with its own numbers") {
  for (preset name : {preset::sft, preset::reinforce, preset::group_normalised,
                      preset::group_centred, preset::group_smoothed}) {
    const std::string text = explain_loss(preset_defaults(name));
    CAPTURE(text);
    CHECK(has(text, "loss preset " + std::string(to_string(name)) + ":"));
    CHECK(has(text, "dl / d log pi"));
    CHECK(has(text, "L = "));
  }
}

TEST_CASE("terms appear where they count and only there") {
  loss_parameters p = preset_defaults(preset::group_normalised);
  p.clip_high = 0.28;
  std::string text = explain_loss(p);
  CHECK(has(text, "clip(r, 0.8, 1.28)"));
  CHECK_FALSE(has(text, "k3"));
  CHECK_FALSE(has(text, "pi_p"));
  CHECK_FALSE(has(text, "A_i < 0"));
  p.kl_coefficient = 0.02;
  p.anchor = ratio_anchor::proximal;
  p.negative_scale = 0.5;
  text = explain_loss(p);
  CHECK(has(text, "0.02 k3"));
  CHECK(has(text, "pi_p"));
  CHECK(has(text, "A_i < 0: A_i is multiplied by 0.5"));
  text = explain_loss(preset_defaults(preset::group_smoothed));
  CHECK(has(text, "clip((R_i - mu) / sigma, -1.5, 1.5)"));
  CHECK(has(text, "block of 100 rewards"));
  CHECK_FALSE(has(explain_loss(preset_defaults(preset::reinforce)), "mean("));
  CHECK(has(explain_loss(preset_defaults(preset::group_centred)), "1024 S"));
}
