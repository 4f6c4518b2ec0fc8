// Messages between the evaluator and runners on a device (`quern-runner gpu`, and the reference
// role of quern-torch on a device), over the socket and with the header and reply of protocol.hpp.
//
//   evaluator                                 runner
//   gpu_open(device)                    ->    reply: a context is there
//   gpu_import(region) + descriptor      ->    reply: mapped (address, for messages to people only)
//   gpu_lock(required) + descriptor     ->    reply: locked for that shared object, host-entry form
//   gpu_load(names) + descriptor        ->    reply: device code, or the shared object, is loaded
//   gpu_tensors(slots) + descriptor     ->    reply: what stands around every call
//   gpu_program(counts) + descriptor    ->    reply: what a call does, device-only form
//   gpu_call(places)                    ->    reply: what a call gets, host-entry form and reference
//   script(text follows)                ->    reply (reference)
//   workspace(sizes)                    ->    reply: bytes asked for (host-entry form)
//   gpu_window(slots)                   ->    reply: nanoseconds of every call, by events
//   gpu_deliver(slots)                  ->    reply: outputs are in place (reference)
//   gpu_drop                            ->    reply: code and regions are gone
#pragma once

#include <array>
#include <cstdint>

#include "env/device/window_part.h"
#include "env/runner/protocol.hpp"

namespace quern::env::runner {

enum class gpu_open_stage : std::uint32_t {
  all,     ///< a context
  driver,  ///< the driver's library alone: nothing on the device that others could feel
  warm     ///< a context in which everything that stands around calls has run once
};

/// `driver` may come before one of the others.
struct gpu_open_request {
  std::int32_t device = 0;
  gpu_open_stage stage = gpu_open_stage::all;
};

struct gpu_import_request {
  std::int32_t region = 0;
  std::uint32_t reserved = 0;
  std::uint64_t bytes = 0;
  std::uint64_t hint = 0;
  std::uint64_t writable_hint = 0;
};

inline constexpr int max_kernel_name_bytes = 32 * 1024;

/// Comes with the shared object of a candidate in host-entry form. The runner copies it, seals the
/// copy and gives up what only the driver needed. Nothing of the candidate has run when this is
/// answered: the answer is the runner's own word.
struct gpu_lock_request {
  /// 1: whatever cannot be locked is an error; 0: what the system offers is enough.
  std::uint32_t required = 1;
  std::uint32_t reserved = 0;
};

/// Device code lies in [offset, offset + bytes) of the file; its kernels' names, NUL-terminated,
/// one after the other. No bytes, and no file: the shared object that came with gpu_lock.
struct gpu_load_request {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t names = 0;
  /// Shared object: vendor libraries load parts of themselves later, so memory may still become
  /// executable behind loading.
  std::uint32_t loads_libraries = 0;
  std::array<char, max_kernel_name_bytes> text{};
};

/// The file holds a quern_tensors.
struct gpu_tensors_request {
  std::int32_t slots = 0;
  std::uint32_t reserved = 0;
};

/// The file holds quern_step[steps], then quern_parameter[parameters].
struct gpu_program_request {
  std::uint32_t steps = 0;
  std::uint32_t parameters = 0;
};

/// Arguments of a call: inputs, outputs, sizes, workspace; `file` of a place is its region,
/// `stride` leads from slot to slot.
struct gpu_call_request {
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
  std::uint32_t sizes = 0;
  /// Reference only: widen floating inputs to f64 and deliver floating outputs as f64.
  std::uint32_t in_f64 = 0;
  std::array<tensor_place, max_tensors> tensors{};  // `file` is the region
  std::array<std::int64_t, max_sizes> size_values{};
  std::uint32_t has_workspace = 0;
  std::uint32_t reserved = 0;
  std::uint64_t workspace_offset = 0;
  /// Reference only: forward is captured once as a CUDA graph and replayed for every call.
  std::uint32_t under_graph = 0;
  std::uint32_t reserved_too = 0;
};

/// Only `count` orders are sent.
struct gpu_window_request {
  std::int32_t count = 0;
  std::uint32_t reserved = 0;
  quern_window_settings settings{};
  std::array<quern_order, QUERN_MOST_CALLS> orders{};

  static constexpr std::size_t bytes_for(std::size_t count) {
    return sizeof(gpu_window_request) - (QUERN_MOST_CALLS - count) * sizeof(quern_order);
  }
};

/// How long a runner looks for the next question again and again before it sleeps. Behind a window
/// of no calls, whose message had `bytes`, the one that is to be timed comes at once; behind what
/// prepares calls the next part of it does.
constexpr std::int64_t awake_behind(command what, std::size_t bytes) {
  constexpr std::int64_t awake_ns = 300'000;
  switch (what) {
    case command::gpu_window:
      return bytes == gpu_window_request::bytes_for(0) ? awake_ns : 0;
    case command::gpu_import:
    case command::gpu_load:
    case command::gpu_tensors:
    case command::gpu_program:
    case command::gpu_call:
      return awake_ns;
    default:
      return 0;
  }
}

/// The text of the reply to gpu_window: nanoseconds of every call by events, in
/// `window_clocks_at` and behind it what the runner's own clock says of the window.
inline constexpr std::size_t max_window_calls = QUERN_MOST_CALLS;
inline constexpr std::size_t window_clocks_at = max_window_calls * sizeof(std::uint32_t);
static_assert(window_clocks_at + sizeof(quern_window_clocks) <= sizeof(reply::text));

}  // namespace quern::env::runner
