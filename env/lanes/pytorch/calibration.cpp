// Calibrated tolerances.
#include "env/lanes/pytorch/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "env/tensor_task/float_bits.hpp"

namespace quern::env {
namespace {

double element_of(dtype type, const std::byte* at) {
  const auto read = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (type) {
    case dtype::f32:
      return static_cast<double>(read(float{}));
    case dtype::bf16:
      return static_cast<double>(from_bf16(read(std::uint16_t{})));
    case dtype::f16:
      return static_cast<double>(from_f16(read(std::uint16_t{})));
    default:
      return read(double{});
  }
}

bool same_kind(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return true;
}

/// `wide`: null: there is none.
result_scale scale_of(const tensor_layout& output, const tensor_bytes& want,
                      const tensor_bytes* wide) {
  result_scale scale;
  const std::size_t width = size_of(output.type);
  double squares = 0;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < output.elements; ++i) {
    const double y = element_of(output.type, want.data() + static_cast<std::size_t>(i) * width);
    scale.finite &= std::isfinite(y);
    if (wide != nullptr) {
      const double y64 =
          element_of(dtype::f64, wide->data() + static_cast<std::size_t>(i) * sizeof(double));
      scale.agrees &= same_kind(y, y64);
      if (std::isfinite(y) && std::isfinite(y64))
        scale.worst_error = std::max(scale.worst_error, std::abs(y - y64));
    }
    if (!std::isfinite(y)) continue;
    squares += y * y;
    ++count;
  }
  if (count > 0) scale.rms = std::sqrt(squares / static_cast<double>(count));
  return scale;
}

}  // namespace

std::vector<result_scale> scales_of(std::span<const tensor_layout> outputs,
                                    std::span<const tensor_bytes> want,
                                    std::span<const tensor_bytes> wide) {
  std::vector<result_scale> scales;
  for (std::size_t o = 0; o < outputs.size(); ++o)
    scales.push_back(is_floating(outputs[o].type)
                         ? scale_of(outputs[o], want[o], wide.empty() ? nullptr : &wide[o])
                         : result_scale{});
  return scales;
}

int contents_for_limit(std::int64_t elements) {
  constexpr std::int64_t enough = 65'536, most = 16;
  return static_cast<int>(std::clamp((enough + elements - 1) / elements, std::int64_t{1}, most));
}

result_scale pooled(std::span<const result_scale> contents) {
  result_scale all = contents.front();
  double squares = all.rms * all.rms, count = 1;
  for (const result_scale& one : contents.subspan(1)) {
    if (!one.finite || !one.agrees) continue;
    all.worst_error = std::max(all.worst_error, one.worst_error);
    squares += one.rms * one.rms;
    ++count;
  }
  all.rms = std::sqrt(squares / count);
  return all;
}

std::optional<tolerance> calibrated(const tolerance& relative, const result_scale& scale) {
  const double error = 4 * scale.worst_error;
  if (!scale.agrees || error > scale.rms / 4) return std::nullopt;
  return tolerance{std::max(relative.atol * scale.rms, error), relative.rtol};
}

base::expected<output_limits> limits_of(const task_instance& at, const tolerance& relative,
                                        std::span<const result_scale> scales) {
  std::vector<tolerance> limits;
  for (std::size_t o = 0; o < scales.size(); ++o) {
    const auto limit = calibrated(relative, scales[o]);
    if (!limit)
      return base::fail(base::errc::invalid_argument,
                        "output '{}' of the reference differs from itself in f64 by {:.3g}, its "
                        "root mean square is {:.3g}: more than a sixteenth",
                        at.outputs[o].name, scales[o].worst_error, scales[o].rms);
    limits.push_back(*limit);
  }
  if (limits.empty()) return output_limits(relative);
  return output_limits(std::move(limits));
}

}  // namespace quern::env
