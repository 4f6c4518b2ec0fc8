// Rows: what works on one, loops over it, and sums over what works on it.
#include <fmt/format.h>

#include "env/lanes/cuda/grammar/cuda_writer.hpp"

namespace quern::env {

std::string_view cuda_writer::lanes() const {
  if (style_.share == cuda_share::thread) return "1";
  return style_.share == cuda_share::warp ? "32" : "B";
}

std::string_view cuda_writer::lane() const {
  return style_.share == cuda_share::thread ? "0" : "l";
}

void cuda_writer::open_row_kernel(std::string_view name) {
  open_kernel(name);
  const std::string guard =
      error_ == kernel_error::unguarded ? "" : fmt::format("if (i >= {}) return;", row_bound());
  switch (style_.share) {
    case cuda_share::thread:
      line("int i = blockIdx.x * B + threadIdx.x;");
      if (!guard.empty()) line(guard);
      break;
    case cuda_share::warp:
      line("int i = (blockIdx.x * B + threadIdx.x) / 32;");
      line("int l = threadIdx.x % 32;");
      if (!guard.empty()) line(guard);
      break;
    default:
      line("int i = blockIdx.x;");
      line("int l = threadIdx.x;");
  }
  // Only whole rows of four begin where a float4 may.
  if (style_.vector) line("int e = m % 4 ? 0 : m;");
}

void cuda_writer::launch_rows(std::string_view name, std::string_view from, std::string_view to,
                              std::string_view shared) {
  switch (style_.share) {
    case cuda_share::thread:
      return launch(name, "(n + B - 1) / B", "B", from, to, shared);
    case cuda_share::warp:
      return launch(name, "(n * 32 + B - 1) / B", "B", from, to, shared);
    default:
      return launch(name, row_bound(), "B", from, to, shared);
  }
}

void cuda_writer::helper(bool maximum) {
  if (style_.share == cuda_share::thread) return;
  const std::string_view name = maximum ? "top" : "total";
  const std::string_view type = number();
  const auto join = [&](std::string_view into, std::string_view value) {
    return maximum ? fmt::format("{} = {};", into, call("fmax", fmt::format("{}, {}", into, value)))
                   : fmt::format("{} += {};", into, value);
  };
  const bool races = error_ == kernel_error::missing_barrier;
  const std::string head = fmt::format("__device__ {} {}({} s) {{\n", type, name, type);
  if (functions_.find(head) != std::string::npos) return;
  std::string text = head;
  const std::string shuffles = fmt::format("  for (int k = 16; k > 0; k /= 2)\n    {}\n",
                                           join("s", "__shfl_xor_sync(~0u, s, k)"));
  if (style_.share == cuda_share::warp) {
    text += shuffles + "  return s;\n}\n";
  } else if (style_.tree) {
    text += fmt::format(
        "  __shared__ {} b[B];\n  int l = threadIdx.x;\n  __syncthreads();\n  b[l] = s;\n"
        "  __syncthreads();\n  for (int k = B / 2; k > 0; k /= 2) {{\n    if (l < k) {}\n{}  }}\n"
        "  return b[0];\n}}\n",
        type, join("b[l]", "b[l + k]"), races ? "" : "    __syncthreads();\n");
  } else {
    text += fmt::format(
        "  __shared__ {} b[32];\n{}  __syncthreads();\n"
        "  if (threadIdx.x % 32 == 0) b[threadIdx.x / 32] = s;\n{}  s = b[0];\n"
        "  for (int k = 1; k < B / 32; k++)\n    {}\n  return s;\n}}\n",
        type, shuffles, races ? "" : "  __syncthreads();\n", join("s", "b[k]"));
  }
  functions_ += text;
}

std::string cuda_writer::gathered(std::string_view value, bool maximum) const {
  if (style_.share == cuda_share::thread) return std::string(value);
  return fmt::format("{}({})", maximum ? "top" : "total", value);
}

void cuda_writer::element(const cuda_sweep& what, std::string_view read, std::string_view column,
                          std::string_view flat, std::string_view store) {
  const std::string h = applied("f", what.first, read, column, flat);
  const auto result = [&](std::string_view value) {
    return applied("g", what.last, value, column, flat);
  };
  if (what.body.empty()) {
    line(fmt::format("{} = {};", store, result(h)));
    return;
  }
  line(fmt::format("{} h = {};", number(), h));
  for (const std::string& one : what.body)
    line(one);
  if (!what.value.empty()) line(fmt::format("{} = {};", store, result(what.value)));
}

namespace {

std::string row_place_of(std::string_view buffer, std::string_view column) {
  return buffer == "r" ? std::string(column) : fmt::format("i * m + {}", column);
}

}  // namespace

void cuda_writer::sweep(const cuda_sweep& what) {
  if (style_.vector) return sweep_vector(what);
  if (style_.unrolled) line("#pragma unroll 4");
  const std::string step =
      style_.share == cuda_share::thread ? "j++" : fmt::format("j += {}", lanes());
  open(fmt::format("for (int j = {}; j < {}; {})", lane(), column_bound(), step));
  element(what, load(what.source, row_place_of(what.source, "j")), "j", "i * m + j",
          fmt::format("{}[{}]", what.target, row_place_of(what.target, "j")));
  close();
}

void cuda_writer::sweep_vector(const cuda_sweep& what) {
  const bool thread = style_.share == cuda_share::thread;
  const auto quad = [&](std::string_view buffer) {
    return fmt::format("*(float4*)({} + {})", buffer, row_place_of(buffer, "j"));
  };
  const auto constant_quad = [&](std::string_view buffer) {
    return fmt::format("*(const float4*)({} + {})", buffer, row_place_of(buffer, "j"));
  };
  open(thread ? std::string("for (int j = 0; j < e; j += 4)")
              : fmt::format("for (int j = 4 * l; j < e; j += 4 * {})", lanes()));
  line(fmt::format("float4 v = {};", constant_quad(what.source)));
  line("float* p = &v.x;");
  if (has_class(what.first, step_class::tensor) || has_class(what.last, step_class::tensor)) {
    line(fmt::format("float4 a = {};", constant_quad("t")));
    line("float* u = &a.x;");
  }
  open("for (int c = 0; c < 4; c++)");
  element(what, "p[c]", "j + c", "c", "p[c]");
  close();
  if (!what.value.empty()) line(fmt::format("{} = v;", quad(what.target)));
  close();
  if (error_ == kernel_error::missing_columns) return;
  open(thread ? std::string("for (int j = e; j < m; j++)")
              : fmt::format("for (int j = e + l; j < m; j += {})", lanes()));
  element(what, load(what.source, row_place_of(what.source, "j")), "j", "i * m + j",
          fmt::format("{}[{}]", what.target, row_place_of(what.target, "j")));
  close();
}

}  // namespace quern::env
