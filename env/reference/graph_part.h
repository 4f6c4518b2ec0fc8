// A reference under a CUDA graph, in C: libquern_aten_cuda.so, which only machines with CUDA can
// build and load. Captures what ATen queues, so that nothing of ATen's own host code is between two
// kernels when it runs again.
//
// Every function returns 0, or -1 with a message. One thread.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct quern_graph;

/// Queues work of ATen on the current stream; 0, or another number where it could not. No
/// exceptions.
typedef int32_t (*quern_graph_call)(void* context);

/// The build of this library (env/device/part_build.hpp).
const char* quern_aten_cuda_build(void);

/// LibTorch's CUDA part must be loaded, with RTLD_GLOBAL. Lives as long as the process.
int32_t quern_graph_open(int32_t device, struct quern_graph** out, char* problem, int32_t room);
const char* quern_graph_problem(const struct quern_graph* g);

/// Calls `call` twice on a stream of the graph's own: once as usual, so that what loads libraries
/// and makes tables has done so, and once captured. Waits for the device. Memory that the captured
/// call allocates stays the graph's. A graph captured before is gone.
int32_t quern_graph_capture(struct quern_graph* g, quern_graph_call call, void* context);
/// Queues the captured work on the current stream, reading and writing where it did.
int32_t quern_graph_replay(struct quern_graph* g);
/// Forgets the graph, and gives its memory back once no tensor is left in it.
int32_t quern_graph_clear(struct quern_graph* g);

#ifdef __cplusplus
}
#endif
