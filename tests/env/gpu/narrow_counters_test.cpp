// How surely an evaluation finds out a kernel that counts in too few bits unless a sample of its
// input warns it (tests/hostile/cuda/device/narrow_counters.cu): the orders are the evaluator's
// own, what the kernel makes of them is a model of it.
#include <algorithm>
#include <map>

#include "env/gpu/device_checks.hpp"
#include "env/gpu/timed_windows.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

/// Blocks of the kernel, the elements at the head of each that it samples, equal pairs among them
/// from which on it is careful, and what a counter holds.
constexpr std::int64_t blocks = 132, sampled = 32, careful_from = 61, most_counted = 65535;
/// Pairs of windows of a measurement that becomes narrow at once, with those of its rehearsal.
constexpr int rehearsed_pairs = 6, timed_pairs = 21;

struct block_content {
  std::int64_t planted = 0;
  std::int64_t planted_in_sample = 0;
  std::int64_t longest = 0;  ///< run of planted elements
};

/// Elements that the order plants, by the block that counts them.
std::map<std::int64_t, block_content> planted_by_block(const quern_order& order,
                                                       std::int64_t elements) {
  const std::int64_t each = (elements + blocks - 1) / blocks;
  std::map<std::int64_t, block_content> result;
  for (std::int64_t at = 0; at < order.changed_count; at += order.changed_run) {
    std::int64_t begin = order.changed_first + at / order.changed_run * order.changed_stride;
    const std::int64_t end = begin + order.changed_run;
    while (begin < end) {
      const std::int64_t block = begin / each;
      const std::int64_t until = std::min(end, (block + 1) * each);
      auto& one = result[block];
      one.planted += until - begin;
      one.longest = std::max(one.longest, until - begin);
      one.planted_in_sample +=
          std::max<std::int64_t>(0, std::min(until, block * each + sampled) - begin);
      begin = until;
    }
  }
  return result;
}

/// Whether the kernel is wrong on this content, as far as it is certain: of a block that counts one
/// value too often for its counter and whose sample looks spread.
bool is_wrong(const quern_order& order, const env::device_instance& of) {
  if (order.round != 0 || order.changed_input != 0 || order.changed_run < sampled) return false;
  const std::int64_t elements = of.at.inputs[0].elements, bins = of.at.sizes[1];
  // Of planted elements the share that has one value: all, nine of ten, or what follows each other.
  const double share = order.changed_kind == QUERN_SPARSE ? 0.9 : 1;
  return std::ranges::any_of(planted_by_block(order, elements), [&](const auto& one) {
    const block_content& block = one.second;
    if (block.planted_in_sample * (block.planted_in_sample - 1) / 2 >= careful_from) return false;
    const std::int64_t alike = order.changed_kind == QUERN_SORTED
                                   ? std::min(block.longest / 2, elements / bins)
                                   : block.planted;
    return share * static_cast<double>(alike) > most_counted;
  });
}

/// Whether an evaluation at the timed sizes, with so many calls a window, finds it out.
bool found_out(std::uint64_t secret, const env::device_instance& of, std::int64_t slots) {
  env::order_maker checks(secret), timed(secret + 1);
  for (int i = 0; i < env::planted_calls_timed; ++i) {
    auto order = checks.fresh(0, 0);
    checks.plant(order, of);
    if (is_wrong(order, of)) return true;
  }
  base::random_stream turns(secret, "order of windows");
  for (int pair = 0; pair < rehearsed_pairs + timed_pairs; ++pair)
    for (const auto& order :
         env::draw_timed_calls(timed, turns, of, pair < rehearsed_pairs ? 2 : slots))
      if (is_wrong(order, of)) return true;
  return false;
}

}  // namespace

TEST_CASE("a kernel that counts in too few bits is found out where a window has few calls, too") {
  const auto path = quern::test::source_dir() / "tests/hostile/cuda/histogram.task.yaml";
  const auto what = env::load_task(path).value();
  const auto of = env::make_device_instance(what, env::tensors_of(what).sizes).value();
  for (const std::int64_t slots : {2, 3, 6}) {
    constexpr int evaluations = 10000;
    int missed = 0;
    for (int i = 0; i < evaluations; ++i)
      missed += found_out(2 * static_cast<std::uint64_t>(i), of, slots) ? 0 : 1;
    MESSAGE(slots << " calls a window: " << missed << " of " << evaluations << " missed");
    CHECK(missed <= evaluations / 500);
  }
}
