// Products of a few rows: against the scalar kernels, and against the library's products followed
// by swiglu. Every case has a control.
#include "policy/device/kernel_pairs.hpp"

using namespace quern;
using namespace quern::policy;
using namespace quern::test;

namespace {

/// Sizes of the models, where a warp has rows of the matrix to itself and where four share them,
/// and awkward ones.
struct few_case {
  std::int32_t columns, width;
};
constexpr few_case few_cases[] = {{1152, 896}, {896, 4864}, {9728, 896}, {1536, 8960},
                                  {8191, 64},  {8195, 72},  {1, 8},      {7, 24}};

constexpr at::ScalarType few_types[] = {at::kFloat, at::kBFloat16};

/// Sums of products are near 0 beside what is added up.
double few_tolerance(at::ScalarType type) {
  return type == at::kFloat ? 2e-4 : 2e-2;
}

kernel_run few_product(at::ScalarType type, few_case size, std::int32_t rows, bool bias,
                       std::uint64_t seed) {
  return [=](const kernel_side& s) {
    const at::Tensor x = s.numbers({rows, size.width}, type, seed),
                     w = s.numbers({size.columns, size.width}, type, 2),
                     b = bias ? s.numbers({size.columns}, type, 3) : at::Tensor(),
                     y = s.zeros({rows, size.columns}, type);
    succeed(s, s.kernels.few_rows_product(element_of(type), rows, size.columns, size.width,
                                          data_of(x), data_of(w), data_of(b), data_of(y), nullptr));
    return std::vector<at::Tensor>{y};
  };
}

/// Inputs that keep products about 1, as silu is not linear.
kernel_run few_gated(at::ScalarType type, few_case size, std::int32_t rows, std::uint64_t seed) {
  return [=](const kernel_side& s) {
    const at::Tensor x = s.numbers({rows, size.width}, type, seed) /
                         std::sqrt(static_cast<double>(size.width)),
                     w = s.numbers({2L * size.columns, size.width}, type, 2),
                     act = s.zeros({rows, size.columns}, type);
    succeed(s, s.kernels.few_rows_swiglu(element_of(type), rows, size.columns, size.width,
                                         data_of(x), data_of(w), data_of(act), nullptr));
    return std::vector<at::Tensor>{act};
  };
}

}  // namespace

TEST_CASE("products of few rows, with and without a bias") {
  if (!go_on_with_kernels()) return;
  for (const at::ScalarType type : few_types)
    for (const few_case size : few_cases)
      for (const std::int32_t rows : {1, 2, 3, 4})
        for (const bool bias : {false, true})
          compare(name_of(bias ? "few_rows_product and bias" : "few_rows_product", type,
                          {rows, size.columns, size.width}),
                  few_tolerance(type), few_product(type, size, rows, bias, 1),
                  few_product(type, size, rows, bias, 9));
}

TEST_CASE("gated products of few rows") {
  if (!go_on_with_kernels()) return;
  for (const at::ScalarType type : few_types)
    for (const few_case size : few_cases)
      for (const std::int32_t rows : {1, 2, 3, 4})
        compare(name_of("few_rows_swiglu", type, {rows, size.columns, size.width}),
                few_tolerance(type), few_gated(type, size, rows, 1),
                few_gated(type, size, rows, 9));
}

TEST_CASE("a gated product is the product and swiglu of it to the bit") {
  if (!go_on_with_kernels()) return;
  const kernel_side s(**cuda_policy_kernels(), at::kCUDA);
  for (const few_case size : few_cases) {
    const at::Tensor x = s.numbers({3, size.width}, at::kBFloat16, 1),
                     w = s.numbers({2L * size.columns, size.width}, at::kBFloat16, 2),
                     apart = s.zeros({3, 2L * size.columns}, at::kBFloat16),
                     two = s.zeros({3, size.columns}, at::kBFloat16),
                     one = s.zeros({3, size.columns}, at::kBFloat16);
    succeed(s, s.kernels.few_rows_product(quern_bf16, 3, 2 * size.columns, size.width, data_of(x),
                                          data_of(w), nullptr, data_of(apart), nullptr));
    succeed(s,
            s.kernels.swiglu(quern_bf16, 3, size.columns, data_of(apart), data_of(two), nullptr));
    succeed(s, s.kernels.few_rows_swiglu(quern_bf16, 3, size.columns, size.width, data_of(x),
                                         data_of(w), data_of(one), nullptr));
    CHECK(at::equal(two, one));
  }
}

TEST_CASE("more than a few rows, and rows that are no packs, are refused") {
  if (!go_on_with_kernels()) return;
  const kernel_side s(**cuda_policy_kernels(), at::kCUDA);
  const at::Tensor x = s.zeros({8, 64}, at::kBFloat16), w = s.zeros({64, 64}, at::kBFloat16),
                   y = s.zeros({8, 64}, at::kBFloat16);
  const auto ask = [&](std::int32_t rows, std::int32_t columns, std::int32_t width, int behind) {
    auto* from = static_cast<char*>(data_of(x)) + behind;
    const auto product = s.kernels.few_rows_product(quern_bf16, rows, columns, width, from,
                                                    data_of(w), nullptr, data_of(y), nullptr);
    CHECK(s.kernels.few_rows_swiglu(quern_bf16, rows, columns, width, from, data_of(w), data_of(y),
                                    nullptr) == product);
    return product;
  };
  CHECK(ask(quern_few_rows, 32, 64, 0) == 0);
  CHECK(ask(0, 32, 64, 0) == 0);
  CHECK(ask(quern_few_rows + 1, 32, 64, 0) != 0);
  CHECK(ask(-1, 32, 64, 0) != 0);
  CHECK(ask(1, 0, 64, 0) != 0);
  CHECK(ask(1, 32, 63, 0) != 0);
  CHECK(ask(1, 32, 56, 2) != 0);
}
