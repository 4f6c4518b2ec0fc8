// Candidate kernels as texts: addressed, different, screened, short.
#include "env/grammar/variants.hpp"

#include <map>
#include <set>

#include "env/grammar/completion_text.hpp"
#include "env/grammar/draw.hpp"
#include "env/lanes/cpp/grammar/cpp_grammar.hpp"
#include "env/lanes/cpp/grammar/render.hpp"
#include "env/lanes/cpp/screen/cpp_screen.hpp"
#include "env/prompt/completion.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

std::string kernel(std::string_view text, env::kernel_style style = {}) {
  return render_kernel(env::parse_composition(text).value(), style);
}

}  // namespace

TEST_CASE("one statement a step, in the order of the reference") {
  CHECK(kernel("times_row | relu | shift -0.5") ==
        "extern \"C\" void kernel(const float* x, const float* w, float* y, int64_t n, int64_t m, "
        "void* workspace, void* stream) {\n"
        "  for (int i = 0; i < n; i++) {\n"
        "    for (int j = 0; j < m; j++) {\n"
        "      float h = x[i * m + j];\n"
        "      h = h * w[j];\n"
        "      h = h > 0 ? h : 0;\n"
        "      h = h - 0.5f;\n"
        "      y[i * m + j] = h;\n"
        "    }\n"
        "  }\n"
        "}\n");
}

TEST_CASE("scratch is asked for where it is used") {
  env::kernel_style tree;
  tree.plan = env::pass_plan::split;
  tree.reduction = env::reduction_plan::tree;
  const std::string text = kernel("tanh | row_sum", tree);
  CHECK(text.find("workspace_bytes(int64_t n, int64_t m) {\n  return 4 * m;\n}") !=
        std::string::npos);
  CHECK(text.find("float* b = (float*)workspace;") != std::string::npos);
  CHECK(kernel("tanh | row_sum").find("workspace_bytes") == std::string::npos);
}

TEST_CASE("correct variants differ in text, wrong ones differ from all of them") {
  for (std::uint64_t k = 0; k < 60; ++k) {
    const env::composition_probe probe(env::draw_composition(31, k, {}));
    const env::variant_supply supply(probe, *env::cpp_grammar());
    std::set<std::string> right;
    for (const auto& variant : supply.correct()) {
      CHECK(variant.intended_correct);
      CHECK(right.insert(variant.source).second);
    }
    CHECK(right.size() >= 8);
    for (std::uint64_t d = 0; d < 20; ++d) {
      const auto drawn = supply.draw(1, d, 1.0);
      CHECK(drawn.intended_correct == (drawn.error == env::kernel_error::none));
      CHECK(right.contains(drawn.source) == drawn.intended_correct);
    }
  }
}

TEST_CASE("a variant depends on its address alone, and the share of wrong ones is kept") {
  const env::composition_probe probe(env::parse_composition("times_row | silu | rms").value());
  const env::variant_supply supply(probe, *env::cpp_grammar());
  const env::variant_supply again(probe, *env::cpp_grammar());
  int wrong = 0;
  std::map<env::kernel_error, int> errors;
  for (std::uint64_t k = 0; k < 1000; ++k) {
    const auto drawn = supply.draw(4, 999 - k, 0.3);
    CHECK(drawn.source == again.draw(4, 999 - k, 0.3).source);
    wrong += drawn.intended_correct ? 0 : 1;
    ++errors[drawn.error];
  }
  CHECK(wrong > 230);
  CHECK(wrong < 370);
  CHECK(errors.size() >= 6);
  for (std::uint64_t k = 0; k < 200; ++k)
    CHECK(supply.draw(4, k, 0).intended_correct);
}

TEST_CASE("the static screen has nothing against any of them") {
  for (std::uint64_t k = 0; k < 80; ++k) {
    const env::composition_probe probe(env::draw_composition(33, k, {}));
    CHECK_FALSE(env::screen_cpp(env::render_plain(probe.subject())));
    const env::variant_supply supply(probe, *env::cpp_grammar());
    for (const auto& variant : supply.correct()) {
      const auto finding = env::screen_cpp(variant.source);
      if (finding) FAIL(finding->text << "\n" << variant.source);
    }
    for (std::uint64_t d = 0; d < 8; ++d)
      CHECK_FALSE(env::screen_cpp(supply.draw(1, d, 1.0).source));
  }
}

TEST_CASE("a completion has its three sections, with something to say in each") {
  const env::composition what = env::parse_composition("times_row | silu | rms").value();
  const env::composition_probe probe(what);
  const env::variant_supply supply(probe, *env::cpp_grammar());
  const auto& variant = supply.correct().front();
  const auto alone = env::parse_completion(completion_text(what, variant, {}, "cpp")).value();
  CHECK(alone.analysis == "3 steps, 1 exp, rms.");
  CHECK(alone.design == variant.style + ".");
  CHECK(alone.code == variant.source);
  const std::vector<env::scored_variant> shown{{supply.correct()[1], 95},
                                               {supply.correct()[5], 310}};
  const auto compared = env::parse_completion(completion_text(what, variant, shown, "cpp")).value();
  CHECK(compared.analysis == "2 leads: " + supply.correct()[5].style + ".");
}
