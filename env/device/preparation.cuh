// What stands before a call. Internal to libquern_cuda.so.
#pragma once

#include <cuda_runtime.h>

#include "env/device/window_part.h"

namespace quern::gpu {

/// Tensors with their content and stretches of memory that hold one word; no two overlap. A kernel
/// for each would take some microseconds of a host that launches them one by one, which shows where
/// the host is what a call waits for.
struct preparation {
  int32_t tensors = 0, stretches = 0;
  uint32_t word = 0;
  uint64_t tensor[QUERN_MOST_TENSORS];
  quern_content content[QUERN_MOST_TENSORS];
  uint64_t stretch[QUERN_MOST_TENSORS + 1];
  int64_t words[QUERN_MOST_TENSORS + 1];

  void add(uint64_t address, const quern_content& what);
  /// `bytes`: a multiple of 4.
  void add(uint64_t address, uint64_t bytes);
};

/// Queues one kernel; the result is the launch's.
cudaError_t prepare(cudaStream_t stream, const preparation& what);

}  // namespace quern::gpu
