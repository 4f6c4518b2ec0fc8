// The tensor-core attention on emulated threads, against a plain sum in float64. What a GPU adds
// is tested there: gpu_policy_pages_test.cpp.
// CUDA's names come before the kernel that uses them.
// clang-format off
#include "policy/device/simt.hpp"
#include "policy/device/attention_kernel.cuh"
// clang-format on

#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.hpp"
#include "support/test.hpp"

using namespace quern;
using policy::device::bf16;

namespace {

constexpr std::int32_t page_keys = 32;

std::vector<bf16> normal_numbers(std::size_t count, const char* purpose) {
  base::random_stream random(3, purpose);
  std::vector<bf16> numbers;
  for (std::size_t i = 0; i < count; ++i)
    numbers.push_back(__float2bfloat16_rn(static_cast<float>(random.normal())));
  return numbers;
}

/// Rows of given lengths over pages in no order, each in a slot of another number; 0: a row of
/// padding.
struct paged_batch {
  quern_heads shape;
  std::vector<std::int32_t> lengths, slots, positions, tables, items, first;
  std::vector<bf16> keys, values, queries, out;
  std::vector<float> partial;
  std::vector<std::int32_t> counters;
  std::int32_t width = 0;

  paged_batch(quern_heads of, std::vector<std::int32_t> lengths_of_rows)
      : shape(of), lengths(std::move(lengths_of_rows)) {
    const auto rows = static_cast<std::int32_t>(lengths.size());
    width = *std::max_element(lengths.begin(), lengths.end()) / page_keys + 1;
    const auto pages = static_cast<std::size_t>(rows * width);
    for (std::size_t i = 0; i < pages; ++i)
      tables.push_back(static_cast<std::int32_t>(i * 7919 % pages));
    items.push_back(0);
    for (std::int32_t row = 0; row < rows; ++row) {
      const std::int32_t length = lengths[static_cast<std::size_t>(row)];
      slots.push_back(length == 0 ? -1 : (row + 3) % rows);
      positions.push_back(length - 1);
      first.push_back(items[0]);
      for (std::int32_t split = 0; split * quern_split < length; ++split) {
        items.insert(items.end(), {row, split});
        ++items[0];
      }
    }
    const auto heads = static_cast<std::size_t>(shape.kv_heads * shape.group),
               dim = static_cast<std::size_t>(shape.dim), all = static_cast<std::size_t>(rows);
    const std::size_t stored = pages * static_cast<std::size_t>(shape.kv_heads * page_keys) * dim;
    keys = normal_numbers(stored, "keys");
    values = normal_numbers(stored, "values");
    queries = normal_numbers(all * heads * dim, "queries");
    out.resize(queries.size());
    partial.assign(static_cast<std::size_t>(items[0]) * heads * (dim + 2),
                   std::numeric_limits<float>::quiet_NaN());
    counters.resize(all * static_cast<std::size_t>(shape.kv_heads));
  }

  [[nodiscard]] std::size_t place_of(std::int32_t row, std::int32_t key, std::int32_t head) const {
    const std::int32_t slot = slots[static_cast<std::size_t>(row)];
    const std::int32_t page = tables[static_cast<std::size_t>(slot * width + key / page_keys)];
    return static_cast<std::size_t>((page * shape.kv_heads + head) * page_keys + key % page_keys) *
           static_cast<std::size_t>(shape.dim);
  }
};

template <int dim, int head_tiles>
void attend_emulated(paged_batch& b, int blocks) {
  const policy::device::attention_arguments a{
      b.shape,
      {static_cast<std::int32_t>(b.slots.size()), b.slots.data(), b.positions.data()},
      {b.keys.data(), b.values.data(), b.tables.data(), page_keys, b.width},
      {b.items.data(), b.first.data()},
      {b.partial.data(), b.counters.data()},
      b.queries.data(),
      b.out.data(),
      static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(dim)))};
  emu::launch(dim3(static_cast<unsigned>(blocks)), dim3(policy::device::attention_threads),
              [&] { policy::device::paged_attention_kernel<dim, head_tiles>(a); });
}

/// The largest difference of any result from float64. `shift`: the row is taken to be so much
/// longer, the control.
double largest_error(const paged_batch& b, std::int32_t shift) {
  const std::int32_t heads = b.shape.kv_heads * b.shape.group;
  const auto dim = static_cast<std::size_t>(b.shape.dim);
  double worst = 0;
  for (std::size_t row = 0; row < b.lengths.size(); ++row)
    for (std::int32_t head = 0; head < heads && b.lengths[row] > 0; ++head) {
      const std::size_t query =
          (row * static_cast<std::size_t>(heads) + static_cast<std::size_t>(head)) * dim;
      const auto number = static_cast<std::int32_t>(row);
      std::vector<double> weights, want(dim);
      for (std::int32_t key = 0; key < std::max(1, b.lengths[row] + shift); ++key) {
        const std::size_t at = b.place_of(number, key, head / b.shape.group);
        double dot = 0;
        for (std::size_t d = 0; d < dim; ++d)
          dot += static_cast<double>(__bfloat162float(b.queries[query + d])) *
                 static_cast<double>(__bfloat162float(b.keys[at + d]));
        weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(dim))));
      }
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (std::size_t key = 0; key < weights.size(); ++key) {
        const std::size_t at =
            b.place_of(number, static_cast<std::int32_t>(key), head / b.shape.group);
        for (std::size_t d = 0; d < dim; ++d)
          want[d] += weights[key] / sum * static_cast<double>(__bfloat162float(b.values[at + d]));
      }
      for (std::size_t d = 0; d < dim; ++d) {
        const double got = static_cast<double>(__bfloat162float(b.out[query + d]));
        worst = std::isfinite(got) ? std::max(worst, std::abs(got - want[d])) : 1e9;
      }
    }
  return worst;
}

template <int dim, int head_tiles>
void check_shape(std::int32_t kv_heads, std::int32_t group) {
  // Fewer blocks than work items: each takes several, one after the other.
  for (const int order : {0, 1, 2}) {  // of threads: forward, backward, shuffled
    emu::order = order;
    paged_batch batch({kv_heads, group, dim}, {1, quern_split + 44, 17, 0, quern_split + 1});
    attend_emulated<dim, head_tiles>(batch, 2);
    CAPTURE(dim);
    CAPTURE(group);
    CAPTURE(order);
    CHECK(largest_error(batch, 0) < 0.02);
    CHECK(largest_error(batch, -1) > 0.1);
    CHECK(std::count(batch.counters.begin(), batch.counters.end(), 0) ==
          static_cast<std::ptrdiff_t>(batch.counters.size()));
  }
}

}  // namespace

TEST_CASE("emulated: attention on tensor cores is that of float64 but for rounding") {
  check_shape<64, 1>(1, 7);
  check_shape<128, 1>(2, 6);
  check_shape<64, 2>(1, 12);
  check_shape<128, 2>(1, 16);
}
