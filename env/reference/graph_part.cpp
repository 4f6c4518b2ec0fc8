// A reference under a CUDA graph. Part of libquern_aten_cuda.so, which finds LibTorch's CUDA part
// in the process that loads it.
#include "env/reference/graph_part.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "env/device/part_builds.h"

struct quern_graph {
  c10::DeviceIndex device = 0;
  // One stream for all captures: cuBLAS keeps a workspace for every stream it has seen.
  std::optional<c10::cuda::CUDAStream> stream;
  std::unique_ptr<at::cuda::CUDAGraph> captured;
  std::string problem;
};

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

std::string words_of(const std::exception& e) {
  if (const auto* c = dynamic_cast<const c10::Error*>(&e)) return c->what_without_backtrace();
  return e.what();
}

template <class Body>
int32_t guarded(quern_graph* g, Body body) {
  try {
    return body();
  } catch (const std::exception& e) {
    g->problem = words_of(e);
    return -1;
  }
}

template <class Body>
void regardless(Body body) {
  try {
    body();
  } catch (const std::exception&) {
    // It had been done already.
  }
}

/// A capture that failed leaves the allocator in its pool, because CUDAGraph throws before it gets
/// there.
void leave_pool(c10::DeviceIndex device, at::cuda::MempoolId_t pool) {
  regardless([&] { allocator::endAllocateToPool(device, pool); });
  regardless([&] { allocator::releasePool(device, pool); });
  regardless([] { allocator::emptyCache(); });
}

int32_t capture(quern_graph* g, quern_graph_call call, void* context) {
  const c10::cuda::CUDAStreamGuard guard(*g->stream);
  if (call(context) != 0) {
    g->problem.clear();
    return -1;
  }
  c10::cuda::device_synchronize();
  // What the rehearsal left in the cache is of the wrong pool: it would be held beside the graph's.
  allocator::emptyCache();
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  const auto pool = at::cuda::graph_pool_handle();
  int32_t called = -1;
  try {
    graph->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    called = call(context);
    graph->capture_end();
  } catch (const std::exception& e) {
    g->problem = words_of(e);
    graph.reset();
    leave_pool(g->device, pool);
    return -1;
  }
  if (called != 0) {
    g->problem.clear();
    return -1;
  }
  c10::cuda::device_synchronize();
  g->captured = std::move(graph);
  return 0;
}

}  // namespace

extern "C" const char* quern_aten_cuda_build(void) {
  return QUERN_ATEN_PART_BUILD;
}

extern "C" int32_t quern_graph_open(int32_t device, quern_graph** out, char* problem,
                                    int32_t room) {
  auto g = std::make_unique<quern_graph>();
  g->device = static_cast<c10::DeviceIndex>(device);
  const int32_t result = guarded(g.get(), [&] {
    g->stream = c10::cuda::getStreamFromPool(false, g->device);
    return 0;
  });
  if (result != 0) {
    std::snprintf(problem, static_cast<size_t>(room), "%s", g->problem.c_str());
    return result;
  }
  *out = g.release();
  return 0;
}

extern "C" const char* quern_graph_problem(const quern_graph* g) {
  return g->problem.c_str();
}

extern "C" int32_t quern_graph_capture(quern_graph* g, quern_graph_call call, void* context) {
  if (quern_graph_clear(g) != 0) return -1;
  return guarded(g, [&] {
    c10::cuda::device_synchronize();
    return capture(g, call, context);
  });
}

extern "C" int32_t quern_graph_replay(quern_graph* g) {
  return guarded(g, [&] {
    if (!g->captured) {
      g->problem = "nothing was captured";
      return -1;
    }
    g->captured->replay();
    return 0;
  });
}

extern "C" int32_t quern_graph_clear(quern_graph* g) {
  if (!g->captured) return 0;
  return guarded(g, [&] {
    c10::cuda::device_synchronize();
    g->captured.reset();
    allocator::emptyCache();
    return 0;
  });
}
