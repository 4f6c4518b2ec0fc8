// How far a candidate's results may lie from the reference's on a GPU. A limit needs the reference
// in f64, which takes longer than anything else of a task. Without f64 there is a narrower one, and
// what lies within that is right. So the reference runs in f64 when a result lies beyond. One
// thread, which has the device's turn.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "env/lanes/pytorch/gpu/device_module_task.hpp"

namespace quern::env {

/// Whether a candidate or a baseline that is made may hold memory of the device.
enum class device_use { alone, beside_others };

/// Ends the candidate's process, whose memory the reference may need in f64. Whether it has ended.
using candidate_end = std::function<bool()>;

/// Of step_seconds: where the reference runs in f64.
inline constexpr std::string_view step_of_limits = "limits of results, in f64";

/// How far results may be from the reference's on the case at this place, by f64. False: the
/// reference itself is too far from what it computes there to judge anybody, and the case is left
/// out from now on; of the first case that is an error, `invalid_argument`, each time. Other errors
/// as prepare_device_module()'s; `exhausted`: it ran in f64 on another content, or may do so alone,
/// and did not here. A limit without f64 would be narrower for all. `use`: as it is now. Where that
/// is beside others and the answer is an error that was not known before, `end` is called, unless
/// it is null, `use` becomes alone and it is asked once more; `unavailable`: the candidate does not
/// end.
base::expected<bool> find_limit(device_module_task& of, std::size_t place, device_context& context,
                                module_memory& memory, device_use& use, const candidate_end& end);

/// A limit that needs no f64 of the case at this place and all of its distribution, unless there is
/// one. False: only find_limit() can say. Errors as there.
base::expected<bool> find_narrow_limit(device_module_task& of, std::size_t place,
                                       device_context& context, module_memory& memory);

/// Finds the limit of the first case, which has one, on more contents of its distribution. Few
/// elements may show no error on one (contents_for_limit()). That takes as many calls in f64, so it
/// is done when a result lies beyond the limit that one content gives. Outputs of calls are left
/// alone. False: that is done, or one content is enough. Errors as find_limit()'s.
base::expected<bool> widen_limit(device_module_task& of, device_context& context,
                                 module_memory& memory);

/// What results on contents of a distribution are held to, by what is known so far. Null: nothing,
/// since the case was left out, or nobody has asked for a limit of it (is_left_out()). Valid until
/// the next of these calls.
const output_limits* limit_of(const device_module_task& of, std::string_view family);
/// Whether no case of that distribution judges anybody.
bool is_left_out(const device_module_task& of, std::string_view family);

/// The next wider limits for the cases of a window, in which something lies beyond what is known so
/// far: find_limit(), and behind it widen_limit(). False: there are no wider ones. `use`, `end` and
/// errors: as find_limit() has them.
base::expected<bool> widen_limits(device_module_task& of, std::span<const module_case> window,
                                  device_context& context, module_memory& memory, device_use& use,
                                  const candidate_end& end);

}  // namespace quern::env
