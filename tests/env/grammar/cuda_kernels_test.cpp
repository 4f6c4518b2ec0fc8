// Generated CUDA kernels run thread by thread on the processor: what is meant to be right is right
// in every order of threads, what is meant to be wrong is wrong.
#include <cstdlib>

#include "env/grammar/cuda_lab.hpp"
#include "env/grammar/draw.hpp"
#include "env/grammar/kernel_lab.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/grammar/variants.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/lanes/cuda/grammar/cuda_grammar.hpp"
#include "env/lanes/cuda/grammar/cuda_writer.hpp"
#include "env/lanes/cuda/screen/cuda_prelude.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

struct tally {
  int right = 0, wrong = 0, races = 0;
};

/// Some right and wrong variants and the plain baseline, on every hidden case of the task.
void prove(const env::composition& what, std::uint64_t key, tally& sum) {
  const env::composition_probe probe(what);
  REQUIRE(probe.objection().empty());
  const env::variant_supply supply(probe, *env::cuda_grammar());
  env::task_options options;
  options.lane = &env::cuda_lane;
  const env::task of = env::make_task(what, options).value();
  std::vector<env::kernel_variant> variants;
  for (std::uint64_t k = 0; k < 10; ++k)
    variants.push_back(supply.draw(key, k, 0));
  for (std::uint64_t k = 0; k < 6; ++k)
    variants.push_back(supply.draw(key, k, 1));
  variants.push_back({env::tensors_of(of).plain, "plain", env::kernel_error::none, true});
  std::vector<std::string> sources;
  for (const auto& variant : variants)
    sources.push_back(variant.source);
  const auto lab = test::cuda_lab::build(what, sources);
  if (!lab) FAIL(lab.error().message);
  std::vector<bool> right(variants.size(), true);
  auto cases = test::judged_inputs(of, key);
  // One of the sizes and distributions after the other, so that all occur and time does not run
  // away.
  for (std::size_t c = 0; c < cases.size(); c += 2) {
    const auto want = interpret(what, cases[c].view());
    for (std::size_t k = 0; k < variants.size(); ++k) {
      if (!right[k] && !variants[k].intended_correct) continue;
      const auto got = (*lab)->run(k, cases[c].view(), c % 4 == 0);
      const bool good = got.problem.empty() && !got.overrun && got.y.size() == want.size() &&
                        test::count_wrong(of, want, got.y) == 0;
      right[k] = right[k] && good;
    }
  }
  for (std::size_t k = 0; k < variants.size(); ++k) {
    // A race need not show in the orders that were tried.
    if (variants[k].error == env::kernel_error::missing_barrier) {
      ++sum.races;
      continue;
    }
    INFO(to_text(what), "\n", variants[k].style, " ", env::name_of(variants[k].error), "\n",
         variants[k].source);
    CHECK(right[k] == variants[k].intended_correct);
    ++(variants[k].intended_correct ? sum.right : sum.wrong);
  }
}

}  // namespace

TEST_CASE("cuda: the kernels of every family do what they are meant to do") {
  tally sum;
  for (const std::string_view family : env::all_families()) {
    env::draw_limits limits = env::cuda_grammar()->limits();
    limits.families = {{std::string(family), 1.0}};
    prove(env::draw_composition(61, 0, limits), 1, sum);
  }
  MESSAGE(sum.right << " right, " << sum.wrong << " wrong, " << sum.races << " races");
  CHECK(sum.right > 150);
  CHECK(sum.wrong > 60);
}

TEST_CASE("cuda: and those of element-wise chains of every kind") {
  tally sum;
  for (const std::string_view text :
       {"times_row | tanh | plus_tensor", "clip | max_tensor | root", "silu | decay | negate",
        "softsign | square | shift 0.5 | relu", "sigmoid | relu | scale 2 | scale 0.5"})
    prove(env::parse_composition(text).value(), 2, sum);
}

TEST_CASE("cuda: nvcc takes a sample of every family") {
  if (std::system("nvcc --version > /dev/null 2>&1") != 0)
    return test::skip("there is no nvcc on the path");
  auto folder = base::temp_folder::make("quern-nvcc").value();
  std::string text;
  int count = 0;
  for (const std::string_view family : env::all_families()) {
    env::draw_limits limits = env::cuda_grammar()->limits();
    limits.families = {{std::string(family), 1.0}};
    const env::composition what = env::draw_composition(62, 0, limits);
    const env::composition_probe probe(what);
    const env::variant_supply supply(probe, *env::cuda_grammar());
    for (std::uint64_t k = 0; k < 12; ++k) {
      std::string source = supply.draw(3, k, 0.3).source;
      // In a namespace of its own; extern "C" would collide.
      for (const std::string_view word : {"extern \"C\" void", "extern \"C\" int64_t"})
        if (const auto at = source.find(word); at != std::string::npos) source.erase(at, 11);
      text += fmt::format("namespace v{} {{\n{}}}\n", count++, source);
    }
  }
  const auto file = folder.path() / "kernels.cu";
  const auto log = folder.path() / "log";
  REQUIRE(base::write_file_atomic(file, "#include <cstdint>\n" + text));
  const auto command =
      fmt::format("nvcc -std=c++20 -arch=sm_90a -Xptxas -O0 -cubin {} -o {} > {} 2>&1",
                  file.string(), (folder.path() / "kernels.cubin").string(), log.string());
  const int code = std::system(command.c_str());
  INFO(base::read_file(log).value_or(""));
  CHECK(code == 0);
  MESSAGE(count << " texts compiled");
}
