// The reference of a module's task where it is a baseline other than eager: through torch.compile,
// or as CUDA graphs.
#pragma once

#include "env/lanes/pytorch/gpu/device_module_task.hpp"
#include "env/verdict/baseline.hpp"

namespace quern::env {

/// Seconds that a baseline may take to be made: compilers, tuning, captures. None of them is timed.
inline constexpr double make_baseline_s = 300;

/// Whether compilers make it, which its process may start and sees.
constexpr bool is_compiled(baseline_choice which) {
  return which == baseline_choice::compile || which == baseline_choice::reduce_overhead ||
         which == baseline_choice::max_autotune;
}

/// The process in which the reference is called as this baseline; the one that says what is right
/// goes on beside it. `of` has its processes and its memory. Made and compared with eager on every
/// case when it is asked for first; kept until another baseline or another task is asked for. Valid
/// until then. `which`: not eager. Limits of `of` are as wide as they get (widen_limits()): this
/// process holds memory that the reference may need in f64. Errors name the baseline:
/// invalid_argument: it cannot be made of this reference, or gives other results; unavailable: of
/// this host; others as widen_limits() has them.
base::expected<device_module*> baseline_of(device_module_task& of, baseline_choice which,
                                           python_zygote& zygote, device_context& context,
                                           module_memory& memory, int core);

}  // namespace quern::env
