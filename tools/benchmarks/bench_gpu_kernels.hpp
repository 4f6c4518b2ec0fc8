// Kernels that bench_gpu measures against themselves.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "env/task/task_codec.hpp"

namespace quern::tools {

struct self_kernel {
  const char* name;
  std::int64_t elements;
  int rounds;  ///< 0: memory-bound
};
/// From launch overhead to a millisecond, bound by memory and by arithmetic.
inline constexpr self_kernel self_kernels[] = {
    {"memory_5us", 1 << 20, 0},          {"memory_15us", 5 << 20, 0},
    {"memory_30us", 10 << 20, 0},        {"memory_70us", 26 << 20, 0},
    {"memory_300us", 110 << 20, 0},      {"memory_1ms", 380 << 20, 0},
    {"arithmetic_10us", 1 << 20, 60},    {"arithmetic_50us", 1 << 20, 1000},
    {"arithmetic_250us", 4 << 20, 1500}, {"arithmetic_1ms", 8 << 20, 3000}};

/// `percent_more`: so much more work, not sleep.
inline std::string self_source(const self_kernel& k, int percent_more) {
  const int rounds = k.rounds + k.rounds * percent_more / 100;
  const std::string body =
      k.rounds == 0
          ? "y[i] = x[i] * 2.5f + 1.0f;"
          : fmt::format(
                "float a = x[i]; for (int k = 0; k < {}; ++k) a = a * 0.5f + 0.25f; y[i] = a;",
                rounds);
  const std::string again =
      k.rounds == 0 && percent_more > 0
          ? fmt::format(
                "  const int64_t more = n * {} / 100;\n  for (int64_t i = start; i < more; i += "
                "stride) y[i] = x[i] * 2.5f + 1.0f;\n",
                percent_more)
          : "";
  return fmt::format(
      "__global__ void self(const float* __restrict__ x, float* y, int64_t n) {{\n"
      "  const int64_t start = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;\n"
      "  const int64_t stride = (int64_t)gridDim.x * blockDim.x;\n"
      "  for (int64_t i = start; i < n; i += stride) {{ {} }}\n{}}}\n"
      "extern \"C\" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t "
      "stream) {{\n"
      "  const int64_t blocks = n / 256 < 2112 ? (n + 255) / 256 : 2112;\n"
      "  self<<<blocks, 256, 0, stream>>>(x, y, n);\n}}\n",
      body, again);
}

/// Its task, with itself as the baseline.
inline env::task self_task(const self_kernel& k) {
  env::task t;
  const std::string text = fmt::format(
      "quern_task: 1\nname: {}\nlane: cuda\nfamily: bench\nsizes: {{n: {}}}\n"
      "hidden_sizes: [{{n: 7}}, {{n: 1000}}]\n"
      "inputs:\n  - {{name: x, dtype: f32, shape: [n], dist: [normal, uniform]}}\n"
      "outputs:\n  - {{name: y, dtype: f32, shape: [n]}}\n"
      "tolerance: {{atol: 1.0e-4, rtol: 1.0e-4}}\nbaseline: plain\ncost: {{bytes: 8*n, flops: n}}\n"
      "reference: |\n  def forward(x):\n{}plain: |\n",
      k.name, k.elements,
      k.rounds == 0 ? "      return x * 2.5 + 1.0\n" : "      return x * 0.0 + 0.5\n");
  std::string plain = self_source(k, 0), indented = "  ";
  for (const char c : plain) {
    indented += c;
    if (c == '\n') indented += "  ";
  }
  auto parsed = env::parse_task(text + indented + "\n");
  if (!parsed) {
    std::fprintf(stderr, "bench_gpu: %s\n", parsed.error().message.c_str());
    std::exit(2);
  }
  return *parsed;
}

}  // namespace quern::tools
