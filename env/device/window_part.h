// The runners' side of a device, in C: the evaluator's memory mapped, kernels loaded, and windows
// of calls timed by events. Part of libquern_cuda.so; used by quern-runner (candidates) and
// quern-torch (references).
//
// A window is a row of calls, each between two events, with the second-level cache flushed before
// it. The host queues the whole window behind a gate, a kernel that waits for the host, so that
// what is measured is the device's time and not the host's: a slow launch is hidden for both sides
// alike.
//
// Every function returns 0, or -1 with a message (quern_window_problem); after a fault of a kernel
// the process is good for nothing. One thread at a time.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  QUERN_MOST_PIECES = 8,
  QUERN_MOST_CALLS = 112,  ///< of one window
  QUERN_MOST_KERNELS = 64,
  QUERN_MOST_STEPS = 1024,
  QUERN_MOST_PARAMETERS = 64
};

/// Where a pointer leads: bytes into a piece, further on by `stride` for every slot.
struct quern_place {
  int32_t piece;  ///< -1: null
  int32_t reserved;
  uint64_t offset;
  uint64_t stride;
};

enum { QUERN_STEP_LAUNCH, QUERN_STEP_SET, QUERN_STEP_COPY };

/// One parameter of a launch: `bytes` raw bytes, or (bytes == 0) a pointer.
struct quern_parameter {
  uint32_t bytes;
  uint32_t reserved;
  uint8_t raw[8];
  struct quern_place place;
};

struct quern_step {
  int32_t kind;
  int32_t kernel;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  uint32_t cooperative;
  uint32_t first_parameter,
      parameters;  ///< in the program's list; set: target; copy: target, source
  uint32_t byte;   ///< set
  uint32_t reserved;
  uint64_t bytes;  ///< set, copy
};

struct quern_window_settings {
  uint64_t flush_bytes;      ///< read before every call; 0: none
  uint64_t gate_timeout_ns;  ///< how long the gate waits for the host; 0: no gate
};

struct quern_window;

/// `own_stream`: 0 works on the default stream of the primary context, as LibTorch does.
int32_t quern_window_open(int32_t device, int32_t own_stream, struct quern_window** out,
                          char* problem, int32_t room);
const char* quern_window_problem(const struct quern_window* w);
/// The stream, a cudaStream_t.
uint64_t quern_window_stream(const struct quern_window* w);

/// Maps the allocation behind `fd` (which stays the caller's) as piece `piece`, in the place of the
/// one that had this number. `shift`: address bytes beyond what alignment asks for, a multiple of
/// 2 MiB, so that pointers differ from those of another mapping.
int32_t quern_window_import(struct quern_window* w, int32_t piece, int32_t fd, uint64_t bytes,
                            uint64_t shift);
/// 0 where there is none.
uint64_t quern_window_address(const struct quern_window* w, int32_t piece);
int32_t quern_window_drop(struct quern_window* w, int32_t piece);

/// Loads device code in the place of what was loaded; names are the kernels' in the code. Globals
/// of earlier code are gone.
int32_t quern_window_load(struct quern_window* w, const void* cubin, const char* const* names,
                          int32_t count);
int32_t quern_window_unload(struct quern_window* w);
/// What a call does; copied. Every pointer must lie in a mapped piece.
int32_t quern_window_program(struct quern_window* w, const struct quern_step* steps, int32_t count,
                             const struct quern_parameter* parameters, int32_t parameter_count);

/// A window by hand: begin, then (before_call, the call on the stream, after_call) for each, then
/// end, which waits and writes the calls' nanoseconds.
int32_t quern_window_begin(struct quern_window* w, const struct quern_window_settings* how);
int32_t quern_window_before_call(struct quern_window* w);
int32_t quern_window_after_call(struct quern_window* w);
int32_t quern_window_end(struct quern_window* w, uint32_t* ns, int32_t capacity, int32_t* count);

/// A window of the program's calls for slots [first, first + count). Where the program says piece
/// `instead_of`, the calls use piece `use` (equal numbers: as the program says).
int32_t quern_window_run(struct quern_window* w, const struct quern_window_settings* how,
                         int64_t first, int32_t count, int32_t instead_of, int32_t use,
                         uint32_t* ns);

#ifdef __cplusplus
}
#endif
