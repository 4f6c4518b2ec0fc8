// Development program: compiles every kernel of many compositions, runs it against the interpreter
// and says which intentions were wrong; with --time also how far the correct ones are apart in
// speed.
//   grammar_proof SEED FIRST COUNT [--time]
//   grammar_proof SEED FIRST COUNT --long-rows LANE   how many of its tasks would call a float kernel
//                                                     that sums in order wrong, on 40 contents each
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "base/random.hpp"
#include "env/grammar/draw.hpp"
#include "env/grammar/kernel_lab.hpp"
#include "env/grammar/long_rows.hpp"
#include "env/grammar/probe.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/grammar/variants.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cpp/grammar/cpp_grammar.hpp"
#include "env/lanes/cpp/grammar/render.hpp"
#include "env/task/lane.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace {

using namespace quern;

constexpr std::size_t most_variants = 20;

struct totals {
  int compositions = 0, correct = 0, wrong = 0, surprises = 0;
  std::map<std::string, int> errors;
  std::vector<double> plain_us, best, clipped;
  std::map<std::string, std::pair<double, int>> by_word;
};

bool is_right(const test::kernel_lab& lab, std::size_t k, const env::task& of,
              const std::vector<test::lab_inputs>& inputs,
              const std::vector<std::vector<double>>& want) {
  for (std::size_t c = 0; c < inputs.size(); ++c)
    if (test::count_wrong(of, want[c], lab.run(k, inputs[c].view())) > 0) return false;
  return true;
}

void time_all(const test::kernel_lab& lab, std::size_t plain,
              const std::vector<env::kernel_variant>& correct, const env::task& of, totals& sum) {
  const auto inputs =
      test::make_inputs(of, env::tensors_of(of).sizes[0], env::tensors_of(of).sizes[1],
                        env::timed_distributions(of), 1);
  const double base = lab.time_us(plain, inputs.view(), 9);
  double best = 0;
  for (std::size_t k = 0; k < correct.size(); ++k) {
    const double speedup = base / lab.time_us(k, inputs.view(), 5);
    best = std::max(best, speedup);
    sum.clipped.push_back(std::min(3.0, speedup));
    const std::string text = correct[k].style;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      auto& [total, count] = sum.by_word[text.substr(at, end - at)];
      total += std::min(3.0, speedup);
      ++count;
      at = end + 1;
    }
  }
  sum.plain_us.push_back(base);
  sum.best.push_back(best);
}

/// All of a few, or a random choice of many.
std::vector<env::kernel_variant> some_of(std::vector<env::kernel_variant> all, std::uint64_t seed) {
  base::random_stream random(seed, "proof");
  while (all.size() > most_variants) {
    std::swap(all[random.below(all.size())], all.back());
    all.pop_back();
  }
  return all;
}

void prove(const env::composition& what, bool timed, std::uint64_t seed, totals& sum) {
  const env::composition_probe probe(what);
  const env::variant_supply supply(probe, *env::cpp_grammar());
  const env::task of = env::make_task(what, {0, &env::cpp_lane}).value();
  std::vector<env::kernel_variant> variants = some_of(supply.correct(), seed);
  const std::size_t right = variants.size();
  for (std::uint64_t k = 0; k < most_variants / 2; ++k) {
    auto drawn = supply.draw(seed, k, 1.0);
    if (!drawn.intended_correct) variants.push_back(std::move(drawn));
  }
  std::vector<std::string> sources;
  for (const auto& variant : variants)
    sources.push_back(variant.source);
  sources.push_back(env::tensors_of(of).plain);
  const auto lab = test::kernel_lab::build(what, sources);
  if (!lab) {
    fmt::print("{}\n", lab.error().message);
    std::exit(1);
  }
  const auto inputs = test::judged_inputs(of, seed);
  std::vector<std::vector<double>> want;
  for (const auto& in : inputs)
    want.push_back(interpret(what, in.view()));
  ++sum.compositions;
  for (std::size_t k = 0; k < sources.size(); ++k) {
    const bool plain = k == variants.size();
    const bool intended = plain || variants[k].intended_correct;
    ++(intended ? sum.correct : sum.wrong);
    if (!intended) ++sum.errors[std::string(name_of(variants[k].error))];
    if (is_right(**lab, k, of, inputs, want) == intended) continue;
    ++sum.surprises;
    fmt::print("SURPRISE {} [{}] {} {}\n{}", to_text(what), plain ? "plain" : variants[k].style,
               plain ? "" : name_of(variants[k].error), intended ? "is wrong" : "is right",
               sources[k]);
  }
  if (timed)
    time_all(**lab, variants.size(),
             {variants.begin(), variants.begin() + static_cast<long>(right)}, of, sum);
}

void print_quantiles(std::string_view name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) {
    return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
  };
  double mean = 0;
  for (const double v : values)
    mean += v / static_cast<double>(values.size());
  fmt::print("{:24} p5 {:8.2f}  p25 {:8.2f}  p50 {:8.2f}  p75 {:8.2f}  p95 {:8.2f}  mean {:8.2f}\n",
             name, at(0.05), at(0.25), at(0.5), at(0.75), at(0.95), mean);
}

int count_long_rows(std::uint64_t seed, std::uint64_t first, std::uint64_t count,
                    const env::lane& lane) {
  int beyond = 0;
  for (std::uint64_t k = first; k < first + count; ++k) {
    const env::composition what = env::draw_composition(seed, k, {});
    const env::task of = env::make_task(what, {0, &lane}).value();
    const double error = test::worst_long_row_error(what, of, 40);
    if (error <= 1) continue;
    ++beyond;
    fmt::print("{}: {:.2f} tolerances\n", of.name, error);
  }
  fmt::print("{} of {} tasks of lane {} would call a right kernel wrong\n", beyond, count,
             lane.name);
  return beyond == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print("usage: grammar_proof SEED FIRST COUNT [--time | --long-rows LANE]\n");
    return 2;
  }
  const std::uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t first = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t count = std::strtoull(argv[3], nullptr, 10);
  if (argc > 5 && std::string_view(argv[4]) == "--long-rows") {
    const env::lane* lane = env::find_lane(argv[5]);
    if (lane != nullptr && lane->grammar != nullptr)
      return count_long_rows(seed, first, count, *lane);
    fmt::print("grammar_proof: '{}' is no lane with a grammar: say cpp or cuda\n", argv[5]);
    return 2;
  }
  const bool timed = argc > 4 && std::string_view(argv[4]) == "--time";
  totals sum;
  for (std::uint64_t k = first; k < first + count; ++k)
    prove(env::draw_composition(seed, k, {}), timed, seed + k, sum);
  fmt::print("{} compositions, {} correct and {} wrong variants, {} surprises\n", sum.compositions,
             sum.correct, sum.wrong, sum.surprises);
  for (const auto& [name, number] : sum.errors)
    fmt::print("  {} {}\n", name, number);
  if (timed) {
    print_quantiles("plain us", sum.plain_us);
    print_quantiles("best / plain", sum.best);
    print_quantiles("min(3, speed-up)", sum.clipped);
    for (const auto& [word, value] : sum.by_word)
      fmt::print("  {:12} {:6.2f} ({})\n", word, value.first / value.second, value.second);
  }
  return sum.surprises == 0 ? 0 : 1;
}
