// What tests of launch plans share: one signature, one file around a body, and steps as text.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "env/launch/plan_rules.hpp"
#include "support/test.hpp"

namespace quern::test {

inline constexpr std::string_view plan_prelude = R"(#include <cstdint>
constexpr int BLOCK = 256;
const int64_t ROWS = 4 * BLOCK;
#define TILE 32
namespace detail {
constexpr int WARPS = 8;
__global__ void inner(float* p) { p[0] = 1.0f; }
template <typename T, int N>
__global__ void fill(T* p, int n) { if (threadIdx.x < n) p[threadIdx.x] = T(N); }
}  // namespace detail
__global__ void copy(const float* __restrict__ x, float* y, int n) { y[n - 1] = x[n - 1]; }
__global__ void scale(const float* x, float* y, int64_t n, float a) { y[n - 1] = a * x[n - 1]; }
template <int B>
__global__ void __launch_bounds__(B) tiled(const float* x, float* y, size_t n) { y[0] = x[n - 1] + B; }
template <typename T, bool Full = true>
__global__ void typed(const T* x, T* y, unsigned n) { if (Full) y[0] = x[n - 1]; }
__global__ void numbers(bool a, char b, short c, unsigned d, long long e, double f) {}
static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
template <typename T> T round_up(T a, T b) { return (a + b - 1) / b * b; }
)";

/// The file with this body of `kernel`, which begins on a line of its own.
inline std::string plan_file(std::string_view body) {
  return std::string(plan_prelude) +
         "extern \"C\" void kernel(const float* x, const int32_t* ids, float* y, int64_t n, "
         "int64_t "
         "m, void* workspace, cudaStream_t stream) {\n" +
         std::string(body) + "\n}\n";
}

/// The line of the file on which a body begins.
inline std::uint32_t plan_body_line() {
  return 2 + static_cast<std::uint32_t>(std::count(plan_prelude.begin(), plan_prelude.end(), '\n'));
}

inline std::string pointer_text(const env::plan_pointer& what) {
  switch (what.buffer) {
    case env::plan_buffer::null:
      return "null";
    case env::plan_buffer::input:
      return fmt::format("in{}+{}", what.index, what.offset);
    case env::plan_buffer::output:
      return fmt::format("out{}+{}", what.index, what.offset);
    default:
      return fmt::format("ws+{}", what.offset);
  }
}

template <class Number>
Number number_in(const env::plan_scalar& what) {
  Number made;
  std::memcpy(&made, what.bytes.data(), sizeof made);
  return made;
}

inline std::string scalar_text(const env::plan_scalar& what, const std::string& type) {
  if (type == "float") return fmt::format("{}f", number_in<float>(what));
  if (type == "double") return fmt::format("{}d", number_in<double>(what));
  if (what.size == 1) return fmt::format("{}b", number_in<std::int8_t>(what));
  if (what.size == 2) return fmt::format("{}s", number_in<std::int16_t>(what));
  if (what.size == 4) return fmt::format("{}", number_in<std::int32_t>(what));
  return fmt::format("{}L", number_in<std::int64_t>(what));
}

/// "copy<<<4 1 1|256 1 1|0>>>(in0+0, out0+0, 1024); set(ws+0, 0, 64)"
inline std::string steps_text(const env::launch_plan& plan,
                              const std::vector<env::launch_step>& steps) {
  std::string text;
  for (const env::launch_step& step : steps) {
    if (!text.empty()) text += "; ";
    if (const auto* launch = std::get_if<env::kernel_launch>(&step)) {
      const env::plan_kernel& kernel = plan.kernels().at(launch->kernel);
      text +=
          fmt::format("{}{}<<<{} {} {}|{} {} {}|{}>>>(", launch->cooperative ? "together " : "",
                      kernel.name, launch->grid[0], launch->grid[1], launch->grid[2],
                      launch->block[0], launch->block[1], launch->block[2], launch->shared_bytes);
      for (std::size_t i = 0; i < launch->arguments.size(); ++i) {
        if (i > 0) text += ", ";
        if (const auto* pointer = std::get_if<env::plan_pointer>(&launch->arguments[i])) {
          text += pointer_text(*pointer);
        } else {
          text += scalar_text(std::get<env::plan_scalar>(launch->arguments[i]),
                              kernel.parameters.at(i).type);
        }
      }
      text += ")";
    } else if (const auto* set = std::get_if<env::memory_set>(&step)) {
      text += fmt::format("set({}, {}, {})", pointer_text(set->to), set->value, set->bytes);
    } else {
      const auto& copy = std::get<env::memory_copy>(step);
      text += fmt::format("copy({}, {}, {})", pointer_text(copy.to), pointer_text(copy.from),
                          copy.bytes);
    }
  }
  return text;
}

/// The steps of a file for these sizes, or the error.
inline std::string steps_of_file(const std::string& file, std::int64_t n, std::int64_t m) {
  const auto plan = env::parse_launch_plan(file, plan_signature());
  if (!plan) return "parse: " + env::to_string(plan.error());
  const auto steps = plan->steps(plan_call(n, m));
  if (!steps) return "steps: " + steps.error().message;
  return steps_text(*plan, *steps);
}

inline std::string steps_of(std::string_view body, std::int64_t n = 1000, std::int64_t m = 8) {
  return steps_of_file(plan_file(body), n, m);
}

/// Why a body is refused: "line:column: text", lines counted from the body's first; "accepted".
inline std::string refusal_of(std::string_view body) {
  const auto plan = env::parse_launch_plan(plan_file(body), plan_signature());
  if (plan) return "accepted";
  return fmt::format("{}:{}: {}",
                     static_cast<std::int64_t>(plan.error().line) - plan_body_line() + 1,
                     plan.error().column, plan.error().text);
}

}  // namespace quern::test
