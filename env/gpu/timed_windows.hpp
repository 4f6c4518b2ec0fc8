// Windows of calls that are timed: how long, behind which gate, with which content.
#pragma once

#include <cstdint>
#include <vector>

#include "env/gpu/calls.hpp"
#include "env/gpu/device_context.hpp"
#include "env/gpu/link.hpp"

namespace quern::env {

/// A gate opens by itself after this: a host that needs the device's answer while it queues must
/// not wait for ever.
constexpr std::uint64_t timed_gate_ns = 60'000'000;

/// Flush and gate of every window that is timed on this device.
quern_window_settings timed_window_settings(const device_context& context);

/// No call, behind a gate that is open: the device turns to the process, and the process is awake.
/// It would else do so in the window that comes.
window_order wake_up_order();

/// How long to look for the answer of a window before sleeping; none where the processors are too
/// few for both to be awake. A thread that sleeps wakes some 200 us late on a virtual machine.
double awake_for_windows_s();

/// Calls in a window so that it lasts `window_ns`, within memory.
std::int64_t calls_per_gpu_window(double call_ns, double window_ns, std::uint64_t bytes_per_call,
                                  std::uint64_t memory_bytes);

/// Calls of a window, one a slot: most with the timed distributions, of which at least one, some
/// with hidden ones, many with elements of others planted. Nothing tells a kernel which it has
/// before it. `turns`: what the evaluator draws for itself.
std::vector<quern_order> draw_timed_calls(order_maker& orders, base::random_stream& turns,
                                          const device_instance& of, std::int64_t slots);

/// Whether its events say that a call of the window took no time, which no call does. A mean would
/// hide it behind the others.
bool claims_no_time(const window_times& times);

}  // namespace quern::env
