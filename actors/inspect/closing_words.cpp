#include "actors/inspect/closing_words.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/inspect/sample_words.hpp"
#include "actors/orchestrator/search_start.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::actors {
namespace {

std::string compared_words(const evaluation_set_half& half, std::uint64_t seed) {
  // Nothing is a multiple of nothing.
  if (half.mean_first() <= 0) return "the first had none, so there is no ratio";
  const gain_interval interval = half.interval(seed);
  std::string words =
      fmt::format("{:.2f} times as much, with 95 % confidence between {:.2f} and {:.2f} times",
                  half.gain(), interval.low, interval.high);
  if (interval.low <= 1 && interval.high >= 1)
    words += "; so few prompts do not tell them apart, since 1 is between";
  return words;
}

std::string interval_words(const kept_kernel& kernel) {
  const auto value = env::parse_verdict(kernel.verdict);
  const found_kernel times = value ? found_kernel_of(*value, 0) : found_kernel{};
  if (times.high_e2 == 0) return "not told";
  return fmt::format("{} to {}{}", speedup_text(times.low_e2), speedup_text(times.high_e2),
                     value->claim_e2 ? "; the speed-up is a cap until it is measured again" : "");
}

}  // namespace

base::expected<std::map<std::string, std::int64_t>> count_verdicts(const storage::ledger& ledger) {
  std::map<std::string, std::int64_t> counts;
  const auto count = [&](const storage::stored_verdict& stored) -> base::status {
    const auto value = read_verdict(stored);
    ++counts[value ? std::string(env::name_of(value->kind)) : "unreadable"];
    return {};
  };
  QUERN_CHECK(ledger.visit_judged(count));
  return counts;
}

std::string gain_words(std::string_view name, const evaluation_set_half& half, std::uint64_t seed) {
  if (half.first.empty()) return fmt::format("{}: no prompt was judged on both sides\n", name);
  const std::string without =
      half.left_out == 0 ? "" : fmt::format(", {} more were not judged", half.left_out);
  return fmt::format("{}: {:.3f} with the first weights, {:.3f} with the last ({} prompts{}): {}\n",
                     name, half.mean_first(), half.mean_last(), half.first.size(), without,
                     compared_words(half, seed));
}

std::string fastest_table(const std::vector<kept_kernel>& kernels, std::size_t most) {
  if (kernels.empty()) return {};
  std::vector<const kept_kernel*> sorted;
  for (const kept_kernel& one : kernels)
    sorted.push_back(&one);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* a, const auto* b) { return a->speedup_e2 > b->speedup_e2; });
  sorted.resize(std::min(most, sorted.size()));
  std::string text =
      fmt::format("{:<34} {:>8}  {}\n", "fastest kernels", "speed-up", "95 % interval");
  for (const kept_kernel* one : sorted)
    text += fmt::format("{:<34} {:>8}  {}\n", one->task + (one->held_out ? " *" : ""),
                        speedup_text(one->speedup_e2), interval_words(*one));
  return text;
}

}  // namespace quern::actors
