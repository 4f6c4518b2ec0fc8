#include "policy/engine/share.hpp"

#include <algorithm>
#include <numeric>

namespace quern::policy {
namespace {

/// Tokens of a sequence at which its attention costs as much as the rest, roughly, for models of
/// the sizes that are trained here.
constexpr double attention_scale = 16384;

double cost_of(const training_sequence& s) {
  const auto tokens = static_cast<double>(s.tokens.size());
  const double whole = tokens + tokens * tokens / attention_scale;
  return s.advantage * s.weight == 0 ? whole / attention_scale : whole;
}

}  // namespace

std::vector<std::size_t> share_of(std::span<const training_sequence> batch, std::int32_t rank,
                                  std::int32_t ranks) {
  std::vector<std::size_t> order(batch.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return cost_of(batch[a]) > cost_of(batch[b]);
  });
  std::vector<double> load(static_cast<std::size_t>(ranks), 0);
  std::vector<std::size_t> mine;
  for (const std::size_t index : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += cost_of(batch[index]);
    if (least - load.begin() == rank) mine.push_back(index);
  }
  std::sort(mine.begin(), mine.end());
  return mine;
}

}  // namespace quern::policy
