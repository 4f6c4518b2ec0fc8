// Generated kernels, compiled and run: what is meant to be right is right, and what is meant to be
// wrong is wrong, on every case that the task judges.
#include <algorithm>
#include <map>

#include "base/random.hpp"
#include "env/grammar/draw.hpp"
#include "env/grammar/kernel_lab.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/grammar/variants.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cpp/grammar/cpp_grammar.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

/// Texts with intrinsics compile only where the machine has them.
bool can_compile(const env::kernel_variant& variant) {
  const bool vector = variant.style.find("vector") != std::string::npos;
#if defined(__x86_64__)
  return !vector || __builtin_cpu_supports("avx2") != 0;
#else
  return !vector;
#endif
}

/// A few right ones of every way to plan the work, and wrong ones; the plain baseline last.
std::vector<env::kernel_variant> choose(const env::variant_supply& supply, std::uint64_t key) {
  std::vector<env::kernel_variant> chosen;
  for (std::uint64_t k = 0; k < 7; ++k)
    chosen.push_back(supply.draw(key, k, 0));
  for (std::uint64_t k = 0; k < 5; ++k)
    chosen.push_back(supply.draw(key, k, 1));
  std::erase_if(chosen, [](const auto& variant) { return !can_compile(variant); });
  return chosen;
}

void prove(const env::composition& what, std::uint64_t key) {
  const env::composition_probe probe(what);
  REQUIRE(probe.objection().empty());
  const env::variant_supply supply(probe, *env::cpp_grammar());
  const env::task of = env::make_task(what, {0, &env::cpp_lane}).value();
  const auto variants = choose(supply, key);
  std::vector<std::string> sources;
  for (const auto& variant : variants)
    sources.push_back(variant.source);
  sources.push_back(env::tensors_of(of).plain);
  const auto lab = test::kernel_lab::build(what, sources);
  if (!lab) FAIL(lab.error().message);
  std::vector<std::size_t> wrong(sources.size(), 0);
  for (const auto& inputs : test::judged_inputs(of, key)) {
    const auto want = interpret(what, inputs.view());
    for (std::size_t k = 0; k < sources.size(); ++k)
      wrong[k] += test::count_wrong(of, want, (*lab)->run(k, inputs.view()));
  }
  for (std::size_t k = 0; k < sources.size(); ++k) {
    const bool intended = k == variants.size() || variants[k].intended_correct;
    INFO(to_text(what), "\n", sources[k]);
    CHECK((wrong[k] == 0) == intended);
  }
}

}  // namespace

TEST_CASE("the kernels of every family do what they are meant to do") {
  for (const std::string_view family : env::all_families()) {
    env::draw_limits limits;
    limits.families = {{std::string(family), 1.0}};
    prove(env::draw_composition(41, 0, limits), 1);
  }
}

TEST_CASE("and those of element-wise chains of every kind") {
  for (const std::string_view text :
       {"times_row | tanh | plus_tensor", "clip | max_tensor | root", "silu | decay | negate",
        "softsign | square | shift 0.5 | relu", "sigmoid | relu | scale 2 | scale 0.5"})
    prove(env::parse_composition(text).value(), 2);
}
