// The host kernels at every instruction level that this machine runs, against plain loops in
// double.
#include <cmath>
#include <cstdint>
#include <vector>

#include "policy/engine/kernels/table.hpp"
#include "support/test.hpp"

using namespace quern::policy::kernels;

namespace {

std::vector<const kernel_table<float>*> levels() {
  const kernel_table<float>* tables[3] = {};
  const int count = usable_kernels(tables);
  REQUIRE(count >= 1);
  CHECK(tables[count - 1] == &host_kernels<float>());
  return {tables, tables + count};
}

/// Values in (-scale, scale).
std::vector<float> values(std::size_t count, float scale, std::uint32_t seed) {
  std::vector<float> result;
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    result.push_back(scale * (static_cast<float>(seed >> 8) / 8388608.0F - 1));
  }
  return result;
}

}  // namespace

TEST_CASE(
    "silu is exact to a few units in the last place over the whole range of its exponential") {
  for (const auto* k : levels()) {
    CAPTURE(k->isa);
    for (float x = -100; x < 100; x += 0.037F) {
      std::vector<float> gate_up(34, 1), act(17);
      for (int i = 0; i < 17; ++i)
        gate_up[static_cast<std::size_t>(i)] = x;
      k->swiglu(gate_up.data(), 1, 17, act.data());
      const double expected = x / (1 + std::exp(-static_cast<double>(x)));
      for (float a : act)  // vectors and the scalar rest
        REQUIRE(std::abs(a - expected) <= 5e-7 * std::abs(expected) + 1e-35);
    }
  }
}

TEST_CASE("norm and softmax at every level") {
  for (const auto* k : levels()) {
    CAPTURE(k->isa);
    for (std::int64_t width : {1, 5, 16, 33, 192}) {
      const auto n = static_cast<std::size_t>(width);
      const std::vector<float> x = values(n, 3, 1), w = values(n, 2, 2);
      std::vector<float> y(n);
      k->rms_norm(x.data(), w.data(), 1e-6F, 1, width, y.data(), nullptr);
      double squares = 0;
      for (float v : x)
        squares += static_cast<double>(v) * v;
      for (std::size_t i = 0; i < n; ++i)
        CHECK(std::abs(y[i] - x[i] * w[i] / std::sqrt(squares / static_cast<double>(n) + 1e-6)) <
              1e-5);

      std::vector<float> s = values(n, 30, 3), lse(1);
      std::vector<double> e;
      double sum = 0;
      for (float v : s)
        sum += e.emplace_back(std::exp(0.5 * v));
      k->softmax_tile(s.data(), 1, width, 1, width, 0.5F, lse.data());
      CHECK(std::abs(lse[0] - std::log(sum)) < 1e-5);
      for (std::size_t i = 0; i < n; ++i)
        CHECK(std::abs(s[i] - e[i] / sum) < 1e-6);
    }
  }
}

TEST_CASE("attention over two caches at every level") {
  for (const auto* k : levels())
    for (const head_shape shape : {head_shape{1, 3, 32}, {1, 7, 10}, {1, 1, 64}}) {
      CAPTURE(k->isa);
      constexpr std::int64_t capacity = 64, shared = 32;
      const std::int64_t d = shape.dim, length = 45;
      const auto size = static_cast<std::size_t>(capacity * d);
      const std::vector<float> q = values(static_cast<std::size_t>(shape.group * d), 1, 1);
      const std::vector<float> keys[2] = {values(size, 1, 2), values(size, 1, 3)},
                               v[2] = {values(size, 1, 4), values(size, 1, 5)};
      std::vector<float> scratch(4 * (capacity + key_block)), out(q.size());
      k->cached_attention(shape, 0, q.data(), 1, 0, shared, length, capacity, keys[0].data(),
                          v[0].data(), keys[1].data(), v[1].data(), scratch.data(), out.data());
      for (std::int64_t g = 0; g < shape.group; ++g) {
        std::vector<double> weight, expected(static_cast<std::size_t>(d), 0);
        double sum = 0;
        for (std::int64_t t = 0; t < length; ++t) {
          double score = 0;
          for (std::int64_t i = 0; i < d; ++i)
            score +=
                static_cast<double>(q[static_cast<std::size_t>(g * d + i)]) *
                keys[t >= shared]
                    [static_cast<std::size_t>((t / key_block * d + i) * key_block + t % key_block)];
          sum += weight.emplace_back(std::exp(score / std::sqrt(static_cast<double>(d))));
        }
        for (std::int64_t t = 0; t < length; ++t)
          for (std::int64_t i = 0; i < d; ++i)
            expected[static_cast<std::size_t>(i)] +=
                weight[static_cast<std::size_t>(t)] / sum *
                v[t >= shared][static_cast<std::size_t>(t * d + i)];
        for (std::int64_t i = 0; i < d; ++i)
          CHECK(std::abs(out[static_cast<std::size_t>(g * d + i)] -
                         expected[static_cast<std::size_t>(i)]) < 2e-6);
      }
    }
}
