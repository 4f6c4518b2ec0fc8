// Softmax over buckets, uniform inside, and what to do while there is little to choose from.
#include "actors/decide/exemplar_selector.hpp"

#include <algorithm>
#include <cmath>

namespace quern::actors {

using base::errc;
using base::fail;

namespace {

/// The members of one bucket that may be chosen: first, first + stride, ...
struct pool {
  int bucket;
  double mean;
  std::int64_t first;
  std::int64_t stride;
  std::int64_t count;
};

std::int64_t members(const std::vector<pool>& pools) {
  std::int64_t total = 0;
  for (const auto& p : pools)
    total += p.count;
  return total;
}

/// The n-th member over all pools.
exemplar_pick nth(const std::vector<pool>& pools, std::int64_t n) {
  for (const auto& p : pools) {
    if (n < p.count) return {p.bucket, p.first + n * p.stride};
    n -= p.count;
  }
  return {};
}

void add_uniform(const std::vector<pool>& pools, std::size_t count, base::random_stream& random,
                 std::vector<exemplar_pick>& picks) {
  const auto total = members(pools);
  const auto wanted = std::min<std::size_t>(count, static_cast<std::size_t>(total));
  while (picks.size() < wanted) {
    // Few are chosen, so a repeated draw is rare except among very few members, where it is cheap.
    const auto pick =
        nth(pools, static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(total))));
    if (std::find(picks.begin(), picks.end(), pick) == picks.end()) picks.push_back(pick);
  }
}

/// One bucket after another, by softmax over those that are left.
void add_by_bucket(std::vector<pool> left, const exemplar_options& options,
                   base::random_stream& random, std::vector<exemplar_pick>& picks) {
  while (!left.empty() && picks.size() < static_cast<std::size_t>(options.count)) {
    // Relative to the best that is left: at least one weight is 1, however small tau is.
    double top = left.front().mean;
    for (const auto& p : left)
      top = std::max(top, p.mean);
    std::vector<double> weight;
    double sum = 0;
    for (const auto& p : left)
      sum += weight.emplace_back(std::exp((p.mean - top) / options.temperature));
    double point = random.uniform() * sum;
    std::size_t chosen = 0;
    while (chosen + 1 < left.size() && point >= weight[chosen])
      point -= weight[chosen++];
    const auto& p = left[chosen];
    const auto n = random.below(static_cast<std::uint64_t>(p.count));
    picks.push_back({p.bucket, p.first + static_cast<std::int64_t>(n) * p.stride});
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
}

}  // namespace

std::string_view to_string(exemplar_strategy strategy) {
  switch (strategy) {
    case exemplar_strategy::bucket:
      return "bucket";
    case exemplar_strategy::island:
      return "island";
    case exemplar_strategy::random:
      return "random";
  }
  return "bucket";
}

base::expected<exemplar_strategy> parse_exemplar_strategy(std::string_view text) {
  for (const auto strategy :
       {exemplar_strategy::bucket, exemplar_strategy::island, exemplar_strategy::random}) {
    if (text == to_string(strategy)) return strategy;
  }
  return fail(errc::invalid_argument, "exemplar strategy '{}' is none of bucket, island, random",
              text);
}

base::expected<std::vector<exemplar_pick>> choose_exemplars(
    std::span<const storage::bucket_summary> buckets, const exemplar_options& options,
    base::random_stream random) {
  if (options.count < 0 || options.count > 64) {
    return fail(errc::invalid_argument, "{} exemplars; allowed are 0 to 64", options.count);
  }
  if (!(options.temperature > 0) || !std::isfinite(options.temperature)) {
    return fail(errc::invalid_argument, "exemplar temperature {}; it must be above 0",
                options.temperature);
  }
  if (options.islands < 1) {
    return fail(errc::invalid_argument, "{} islands; at least 1", options.islands);
  }
  std::vector<pool> pools;
  for (const auto& b : buckets) {
    if (b.count > 0) pools.push_back({b.bucket, b.mean(), 0, 1, b.count});
  }
  std::sort(pools.begin(), pools.end(),
            [](const pool& a, const pool& b) { return a.bucket < b.bucket; });
  const auto wanted = static_cast<std::size_t>(options.count);
  if (options.highest_only && pools.size() > wanted) {
    pools.erase(pools.begin(), pools.end() - static_cast<std::ptrdiff_t>(wanted));
  }
  std::vector<exemplar_pick> picks;
  const auto total = members(pools);
  if (total == 0 || options.count == 0) return picks;

  if (options.strategy == exemplar_strategy::island) {
    const auto lot =
        nth(pools, static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(total))));
    const auto island = lot.k % options.islands;
    for (auto& p : pools) {
      p.first = island;
      p.stride = options.islands;
      p.count = p.count > island ? (p.count - island - 1) / options.islands + 1 : 0;
    }
    std::erase_if(pools, [](const pool& p) { return p.count == 0; });
  }
  if (options.strategy != exemplar_strategy::random) add_by_bucket(pools, options, random, picks);
  add_uniform(pools, static_cast<std::size_t>(options.count), random, picks);
  std::sort(picks.begin(), picks.end(), [](const exemplar_pick& a, const exemplar_pick& b) {
    return std::pair(a.bucket, a.k) < std::pair(b.bucket, b.k);
  });
  return picks;
}

}  // namespace quern::actors
