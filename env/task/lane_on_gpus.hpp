// Lanes of cores that judge on a GPU, too: what differs there.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "env/task/lane.hpp"

namespace quern::env {

/// Constant, as the lane that has it. Functions may be called from any thread.
struct lane_on_gpus {
  /// Device class that prompts name where the machine has no such GPU (`--dry-run`).
  std::string_view usual_device_class;
  /// As lane::protocols and lane::baselines, in their place.
  std::span<const std::string_view> protocols;
  std::span<const baseline_choice> baselines;
  /// As lane::device_class, of a GPU by its number.
  base::expected<std::string> (*device_class)(int gpu);
  /// As lane::restrictions, in its place.
  std::vector<std::string> (*restrictions)(const suite_policy& allowed);
  /// Whether there are GPUs here at all. Error (unavailable): what is missing and what to do.
  base::status (*check_devices)();
};

/// Whether candidates of the lane are measured on a GPU. `on_gpu`: whether that is asked for
/// (evaluator_options::on_gpu); lanes of GPUs need not be asked.
inline bool measures_on_gpu(const lane& where, bool on_gpu) {
  return where.device == device_kind::gpu || (on_gpu && where.on_gpus_too != nullptr);
}

/// What it measures by, and over what, where it does so.
inline std::span<const std::string_view> protocols_on(const lane& where, bool on_gpu) {
  return on_gpu && where.on_gpus_too != nullptr ? where.on_gpus_too->protocols : where.protocols;
}
inline std::span<const baseline_choice> baselines_on(const lane& where, bool on_gpu) {
  return on_gpu && where.on_gpus_too != nullptr ? where.on_gpus_too->baselines : where.baselines;
}

/// Class of the device that they are measured on; `gpu` is read where that is a GPU. Error:
/// unavailable: it is not there.
inline base::expected<std::string> device_class_on(const lane& where, bool on_gpu, int gpu) {
  const bool other = where.device == device_kind::core && measures_on_gpu(where, on_gpu);
  return other ? where.on_gpus_too->device_class(gpu) : where.device_class(gpu);
}

}  // namespace quern::env
