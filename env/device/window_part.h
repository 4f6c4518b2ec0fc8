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

#include "env/device/context_part.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  QUERN_MOST_CALLS = 112,  ///< of one window
  QUERN_MOST_KERNELS = 64,
  QUERN_MOST_STEPS = 1024,
  QUERN_MOST_PARAMETERS = 64
};

/// Where a pointer leads: bytes into a region, further on by `stride` for every slot.
struct quern_place {
  int32_t region;  ///< -1: null
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

enum { QUERN_MOST_TENSORS = 32, QUERN_MOST_ROUNDS = 16 };

/// What stands before and behind a call: tensors in the memory that it works on.
struct quern_tensors {
  int32_t inputs, outputs;
  /// Content of each input but for `key`, `stream` and `kind`, which every call has its own of.
  struct quern_content content[QUERN_MOST_TENSORS];
  uint64_t input_offset[QUERN_MOST_TENSORS];  ///< in the region of inputs
  int32_t kinds[QUERN_MOST_ROUNDS][QUERN_MOST_TENSORS];
  uint64_t output_offset[QUERN_MOST_TENSORS];  ///< in the region of outputs, slot 0
  uint64_t output_bytes[QUERN_MOST_TENSORS];   ///< multiples of 4
  uint64_t output_stride;                      ///< from slot to slot
  uint64_t workspace_bytes;                    ///< poisoned from its place in its region on
  uint64_t workspace_offset;
};

/// One call: its content and its slot of outputs.
struct quern_order {
  uint64_t key, stream;  ///< input i has content (key + i, stream)
  int32_t round;         ///< row of `kinds`
  int32_t slot;          ///< of the outputs
  /// -1: none; else `changed_count` elements of this input are content (key + i, changed_stream) of
  /// kind `changed_kind`: runs of `changed_run` >= 1 neighbours (the last may be shorter), the
  /// first run from `changed_first` on, each `changed_stride` >= changed_run elements behind the
  /// one before.
  int32_t changed_input;
  int32_t changed_kind;
  uint64_t changed_stream;
  int64_t changed_first, changed_count, changed_run, changed_stride;
  uint32_t poison;  ///< word that outputs and workspace hold before the call
  uint32_t reserved;
};

struct quern_window_settings {
  uint64_t flush_bytes;      ///< read before every call; 0: none
  uint64_t gate_timeout_ns;  ///< how long the gate waits for the host; 0: no gate
};

/// Regions by number: inputs (mapped for reading; the window itself writes them through another
/// mapping), the side's own outputs, its workspace.
enum { QUERN_INPUTS, QUERN_OUTPUTS, QUERN_WORKSPACE, QUERN_REGIONS };

/// The last window that ended, by the clock of the process.
struct quern_window_clocks {
  uint64_t start_ns;  ///< from its beginning until the first call's content was queued
  uint64_t queue_ns;  ///< from its beginning until the gate was opened
  uint64_t run_ns;    ///< from there until the device had nothing left to do
};

/// Why a function failed, for whoever decides; the message is for people.
enum quern_cause {
  QUERN_CAUSE_UNKNOWN,
  QUERN_CAUSE_MEMORY,   ///< the device or the host has none left
  QUERN_CAUSE_HARDWARE  ///< an error that a device in order does not give
};

struct quern_window;

/// Starts the driver's library: no context, nothing on the device.
int32_t quern_window_driver(char* problem, int32_t room);

/// `own_stream`: 0 works on the default stream of the primary context, as LibTorch does.
int32_t quern_window_open(int32_t device, int32_t own_stream, struct quern_window** out,
                          char* problem, int32_t room);
/// Runs once whatever stands around calls, so that the first window pays for nothing: kernels are
/// loaded, memory to flush with is there, and so is the thread that calls host functions of
/// streams, which could not be made later.
int32_t quern_window_warm_up(struct quern_window* w);
const char* quern_window_problem(const struct quern_window* w);
/// Of the failure that quern_window_problem tells of: one of quern_cause.
int32_t quern_window_cause(const struct quern_window* w);
/// The stream, a cudaStream_t.
uint64_t quern_window_stream(const struct quern_window* w);

/// Maps the allocation behind `fd` (which stays the caller's) as region `region`, in the place of
/// the one that had this number. `hint`: where the address space is asked for it; 0: anywhere.
/// `writable_hint`: the same for the window's own mapping of the inputs, since the one at `hint` is
/// for reading only. Where both hints are one address there is one mapping, which kernels can
/// write.
int32_t quern_window_import(struct quern_window* w, int32_t region, int32_t fd, uint64_t bytes,
                            uint64_t hint, uint64_t writable_hint);
/// The same without any mapping that kernels can write, at `hint` or anywhere: for a process that
/// gets its inputs from others, and must not change them.
int32_t quern_window_import_to_read(struct quern_window* w, int32_t region, int32_t fd,
                                    uint64_t bytes, uint64_t hint);
/// 0 where there is none.
uint64_t quern_window_address(const struct quern_window* w, int32_t region);
int32_t quern_window_drop(struct quern_window* w, int32_t region);

/// Loads device code in the place of what was loaded; names are the kernels' in the code. Globals
/// of earlier code are gone.
int32_t quern_window_load(struct quern_window* w, const void* cubin, const char* const* names,
                          int32_t count);
int32_t quern_window_unload(struct quern_window* w);
/// What a call does; copied. Every pointer must lie in a mapped region.
int32_t quern_window_program(struct quern_window* w, const struct quern_step* steps, int32_t count,
                             const struct quern_parameter* parameters, int32_t parameter_count);

/// What stands around the calls from now on; copied. Everything must lie in mapped regions, outputs
/// for `slots` slots.
int32_t quern_window_tensors(struct quern_window* w, const struct quern_tensors* what,
                             int32_t slots);

/// A window by hand: begin, then (before_call, the call on the stream, after_call) for each, then
/// end, which waits and writes the calls' nanoseconds. A window that cannot go on is abandoned.
/// `after_beside`, behind work that was queued behind after_call and that windows of others do not
/// have: its time is left out of the clocks' run_ns.
int32_t quern_window_begin(struct quern_window* w, const struct quern_window_settings* how);
int32_t quern_window_before_call(struct quern_window* w, const struct quern_order* order);
int32_t quern_window_after_call(struct quern_window* w);
int32_t quern_window_after_beside(struct quern_window* w);
int32_t quern_window_end(struct quern_window* w, uint32_t* ns, int32_t capacity, int32_t* count);

void quern_window_abandon(struct quern_window* w);
struct quern_window_clocks quern_window_clocks_of(const struct quern_window* w);

/// A window of the program's calls.
int32_t quern_window_run(struct quern_window* w, const struct quern_window_settings* how,
                         const struct quern_order* orders, int32_t count, uint32_t* ns);

#ifdef __cplusplus
}
#endif
