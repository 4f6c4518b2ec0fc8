// Messages between the evaluator and runners on a device (`quern-runner gpu`, and the reference
// role of quern-torch on a device), over the socket and with the header and reply of protocol.hpp.
//
//   evaluator                                 runner
//   gpu_open(device)                    ->    reply: a context is there
//   gpu_import(piece) + descriptor      ->    reply: mapped (address, for messages to people only)
//   gpu_load(names) + descriptor        ->    reply: device code or shared object is loaded
//   gpu_program(counts) + descriptor    ->    reply: what a call does, device-only form
//   gpu_call(places)                    ->    reply: what a call gets, host-entry form and
//   reference script(text follows)                ->    reply (reference) workspace(sizes) ->
//   reply: bytes asked for (host-entry form) gpu_window(slots)                   ->    reply:
//   nanoseconds of every call, by events gpu_deliver(slots)                  ->    reply: outputs
//   are in place (reference) gpu_drop                            ->    reply: code and pieces are
//   gone
#pragma once

#include <array>
#include <cstdint>

#include "env/device/window_part.h"
#include "env/runner/protocol.hpp"

namespace quern::env::runner {

/// Pieces by number. Outputs are two equal sets: which of them a window writes is drawn, so that
/// what memory they lie in is not part of the difference between two sides.
enum gpu_piece : std::int32_t { piece_inputs, piece_outputs, piece_other_outputs, piece_workspace };
inline constexpr std::size_t lent_pieces = 4;

struct gpu_open_request {
  std::int32_t device = 0;
  std::uint32_t reserved = 0;
};

struct gpu_import_request {
  std::int32_t piece = 0;
  std::uint32_t reserved = 0;
  std::uint64_t bytes = 0;
  std::uint64_t shift = 0;
};

inline constexpr int max_kernel_name_bytes = 32 * 1024;

/// Device code lies in [offset, offset + bytes) of the file; its kernels' names, NUL-terminated,
/// one after the other. No names: the file is a shared object with host entries.
struct gpu_load_request {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t names = 0;
  std::uint32_t reserved = 0;
  std::array<char, max_kernel_name_bytes> text{};
};

/// The file holds quern_step[steps], then quern_parameter[parameters].
struct gpu_program_request {
  std::uint32_t steps = 0;
  std::uint32_t parameters = 0;
};

/// Arguments of a call: inputs, outputs (in piece_outputs), sizes, workspace.
struct gpu_call_request {
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
  std::uint32_t sizes = 0;
  /// Reference only: widen floating inputs to f64 and deliver floating outputs as f64.
  std::uint32_t in_f64 = 0;
  std::array<tensor_place, max_tensors> tensors{};  // `file` is the piece
  std::array<std::int64_t, max_sizes> size_values{};
  std::uint32_t has_workspace = 0;
  std::uint32_t reserved = 0;
  std::uint64_t workspace_offset = 0;
};

struct gpu_window_request {
  std::int64_t first = 0;
  std::int32_t count = 0;
  /// piece_outputs or piece_other_outputs.
  std::int32_t output_piece = piece_outputs;
  quern_window_settings how{};
};

/// Nanoseconds of calls stand in the text of the reply to gpu_window.
inline constexpr std::size_t max_window_calls = QUERN_MOST_CALLS;
static_assert(max_window_calls * sizeof(std::uint32_t) <= sizeof(reply::text));

}  // namespace quern::env::runner
