// Messages between the evaluator and its runners (candidate and reference alike) over one
// SOCK_SEQPACKET pair.
//
//   evaluator                                runner
//   map(file, ranges) + descriptor    ->     reply: address of the mapping (for messages to people only)
//   load(path of the artefact)        ->     reply: has workspace_bytes or not (candidate)
//   script(text follows)              ->     reply (reference)
//   workspace(sizes)                  ->     reply: bytes asked for
//   plan(call_plan)                   ->     reply
//   run(begin, end)                   ->     reply: the stretch that the evaluator times
//   flush                             ->     reply: outputs of the last run are in place (reference)
//
// Nothing that a runner says is believed beyond "I am done": results are read from memory that the
// evaluator owns, time from its own clock. One machine, one build: plain structs.
#pragma once

#include <array>
#include <cstdint>

namespace quern::env::runner {

inline constexpr int max_tensors = 32;
inline constexpr int max_sizes = 16;
inline constexpr int max_files = 4;
inline constexpr int max_ranges = 64;
inline constexpr int max_script_bytes = 32 * 1024;
inline constexpr int max_lane_question_bytes = 32 * 1024;
/// The descriptor on which a runner finds its socket.
inline constexpr int socket_fd = 3;
/// Exit status of a runner whose socket is none any more: its candidate closed it.
inline constexpr int lost_socket_status = 71;

enum class command : std::uint32_t {
  map,
  load,
  script,
  workspace,
  plan,
  run,
  flush,
  // On a device: gpu_protocol.hpp.
  gpu_open,
  gpu_import,
  gpu_load,
  gpu_tensors,
  gpu_program,
  gpu_call,
  gpu_window,
  gpu_deliver,
  gpu_drop,
  gpu_lock,
  ask_lane
};

/// Bytes [begin, begin + bytes) of a file that a runner may touch; page-aligned. All else of the
/// mapping, and a page before and after it, faults.
struct file_range {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

/// Where call i finds a tensor: files[file] + offset + i * stride.
struct tensor_place {
  std::uint32_t file = 0;
  std::uint32_t type = 0;  // dtype of env/task, for the reference
  std::uint64_t offset = 0;
  std::uint64_t stride = 0;
  std::uint32_t rank = 0;
  std::uint32_t reserved = 0;
  std::array<std::int64_t, 8> shape{};
};

struct map_request {
  std::uint32_t file = 0;
  std::uint32_t writable = 0;
  std::uint64_t bytes = 0;
  /// Where it is to lie, if that is free; 0: anywhere.
  std::uint64_t address = 0;
  std::uint32_t range_count = 0;
  std::uint32_t reserved = 0;
  std::array<file_range, max_ranges> ranges{};
};

struct call_plan {
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
  std::uint32_t sizes = 0;
  /// Reference only: widen floating inputs to f64 first and write floating outputs as f64.
  std::uint32_t in_f64 = 0;
  std::array<tensor_place, max_tensors> tensors{};  // inputs, then outputs
  std::array<std::int64_t, max_sizes> size_values{};
  std::uint32_t has_workspace = 0;
  std::uint32_t workspace_file = 0;
  std::uint64_t workspace_offset = 0;
};

struct run_request {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct load_request {
  std::array<char, 1024> path{};
};

struct script_request {
  std::uint32_t bytes = 0;
  std::array<char, max_script_bytes> text{};
};

/// A question of one lane, as text: what both sides understand by it is theirs. The answer is the
/// first `value` bytes of the last file.
struct lane_request {
  std::uint32_t bytes = 0;
  std::array<char, max_lane_question_bytes> text{};
};

struct header {
  command command_id = command::run;
  std::uint32_t reserved = 0;
  /// Repeated in the reply; strictly growing. A reply with another ticket is forged or late.
  std::uint64_t ticket = 0;
};

/// A message is a header followed by exactly the body of its command (nothing for flush).
template <class Body>
struct message {
  header head;
  Body body;
};

enum class outcome : std::uint32_t { done, failed, fault, wrong_shape, wrong_dtype };

/// Why it is `failed` or `fault`, for whoever decides; the text is for people. The first three have
/// the numbers of quern_cause (env/device/window_part.h).
enum class cause : std::uint32_t {
  unknown,
  memory,    ///< none left
  hardware,  ///< an error that a device in order does not give
  capture,   ///< reference: it cannot be recorded as a CUDA graph
  not_here   ///< module: what failed needs what no host of this device class has
};

struct reply {
  std::uint64_t ticket = 0;
  outcome reply_outcome = outcome::done;
  std::uint32_t signal = 0;     // fault
  std::uint32_t was_write = 0;  // fault
  cause why = cause::unknown;
  std::uint64_t value =
      0;  // map: address; load: 1 with workspace_bytes; workspace: bytes; fault: address
  std::array<char, 480> text{};  // for people
};

}  // namespace quern::env::runner
