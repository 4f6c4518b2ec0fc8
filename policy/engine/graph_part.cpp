// Capture and replay. Part of libquern_policy_graph.so, which finds LibTorch's CUDA part in the
// process that loads it.
#include "policy/engine/graph_part.h"

#include <memory>
#include <new>
#include <string>
#include <vector>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

struct quern_policy_graphs {
  at::cuda::MempoolId_t pool;
  std::vector<std::unique_ptr<at::cuda::CUDAGraph>> graphs;
  std::string problem;
};

namespace {

std::string words_of_error(const std::exception& e) {
  if (const auto* c = dynamic_cast<const c10::Error*>(&e)) return c->what_without_backtrace();
  return e.what();
}

/// LibTorch's allocator counts a capture that was refused as one that goes on: its pool is closed,
/// and those that follow have another.
void leave_pool(quern_policy_graphs* g) {
  try {
    c10::cuda::CUDACachingAllocator::endAllocateToPool(c10::cuda::current_device(), g->pool);
  } catch (const std::exception&) {
    // It was not open.
  }
  g->pool = at::cuda::graph_pool_handle();
}

template <class Body>
int32_t guarded(quern_policy_graphs* g, Body body) {
  try {
    return body();
  } catch (const std::exception& e) {
    g->problem = words_of_error(e);
    return -1;
  }
}

}  // namespace

extern "C" quern_policy_graphs* quern_policy_graph_open(void) {
  auto* g = new (std::nothrow) quern_policy_graphs;
  if (g != nullptr) g->pool = at::cuda::graph_pool_handle();
  return g;
}

extern "C" int32_t quern_policy_graph_capture(quern_policy_graphs* g, quern_policy_graph_call call,
                                              void* context, int32_t* number) {
  const int32_t result = guarded(g, [&] {
    c10::cuda::device_synchronize();
    *number = static_cast<int32_t>(g->graphs.size());
    // Kept where it fails, too: LibTorch's allocator goes on asking it whether it captures.
    auto& graph = g->graphs.emplace_back(std::make_unique<at::cuda::CUDAGraph>());
    graph->capture_begin(g->pool, cudaStreamCaptureModeThreadLocal);
    const int32_t called = call(context);
    graph->capture_end();
    if (called != 0) {
      g->problem = "the call that was to be captured failed";
      return -1;
    }
    c10::cuda::device_synchronize();
    return 0;
  });
  if (result != 0) leave_pool(g);
  return result;
}

extern "C" int32_t quern_policy_graph_replay(quern_policy_graphs* g, int32_t number) {
  return guarded(g, [&] {
    g->graphs.at(static_cast<std::size_t>(number))->replay();
    return 0;
  });
}

extern "C" const char* quern_policy_graph_problem(const quern_policy_graphs* g) {
  return g->problem.c_str();
}

extern "C" void quern_policy_graph_close(quern_policy_graphs* g) {
  (void)guarded(g, [&] {
    c10::cuda::device_synchronize();
    g->graphs.clear();
    return 0;
  });
  delete g;
}
