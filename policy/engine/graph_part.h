// CUDA graphs of what LibTorch and the small kernels queue, in C: libquern_policy_graph.so, which
// only machines with CUDA can build and load. LibTorch's CUDA part must be loaded before it, with
// RTLD_GLOBAL.
//
// Every function that can fail returns 0, or -1 with a message. One thread.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct quern_policy_graphs;

/// Queues the work on the current stream; 0, or another number where it could not. No exceptions.
typedef int32_t (*quern_policy_graph_call)(void* context);

/// Graphs of one engine: they share one memory pool, and are replayed one at a time on one stream.
/// Null without memory.
struct quern_policy_graphs* quern_policy_graph_open(void);
/// Captures what `call` queues on the current stream, which must not be the default one; what it
/// queues must have run before in the usual way (libraries load and choose then). Gives the graph's
/// number. Waits for the device. Memory that the call allocates stays the graphs'.
int32_t quern_policy_graph_capture(struct quern_policy_graphs* g, quern_policy_graph_call call,
                                   void* context, int32_t* number);
/// Queues the captured work on the current stream.
int32_t quern_policy_graph_replay(struct quern_policy_graphs* g, int32_t number);
const char* quern_policy_graph_problem(const struct quern_policy_graphs* g);
/// Waits for the device.
void quern_policy_graph_close(struct quern_policy_graphs* g);

#ifdef __cplusplus
}
#endif
