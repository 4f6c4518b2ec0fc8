// What a speed-up is measured against, by name; and how the references behind these names are
// computed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace quern::env {

/// Names as verdicts, protocols (`paired/1@graph`) and rewards (`speedup/1@graph`) store them.
/// Grows at the end.
enum class baseline_choice {
  of_task,          ///< what the task file says: its reference, run by ATen, or its plain kernel
  eager,            ///< the reference, run by ATen one operator at a time
  graph,            ///< the same call, captured once as a CUDA graph and replayed (on a GPU)
  compile,          ///< the reference through torch.compile, in a Python child (on a GPU)
  plain,            ///< the task's plain kernel, compiled and run as a candidate is
  reduce_overhead,  ///< torch.compile(mode="reduce-overhead") of a module (on a GPU)
  max_autotune      ///< torch.compile(mode="max-autotune") of a module (on a GPU)
};

/// All names, in order; the first is "task".
std::span<const std::string_view> all_baselines();
std::string_view name_of(baseline_choice which);
std::optional<baseline_choice> parse_baseline(std::string_view name);

/// How ATen computes references on a device: f32 means f32, algorithms by cuDNN's heuristics. The
/// process that runs references sets exactly these, and verdicts state them.
struct reference_settings {
  bool tf32 = false;
  bool cudnn_benchmark = false;
  bool cudnn_attention = false;
  bool deterministic = false;
};
inline constexpr reference_settings stated_settings{};

/// "TF32 off, cudnn.benchmark off, cuDNN attention off, deterministic off".
std::string to_text(const reference_settings& settings);

}  // namespace quern::env
