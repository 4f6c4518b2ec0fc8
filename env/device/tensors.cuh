// Kernels over tensors of any element type: content, patterns, comparisons. Internal to
// libquern_cuda.so.
#pragma once

#include <cuda_runtime.h>

#include "env/device/context_part.h"

namespace quern::gpu {

/// What is to be compared; see quern_context_compare.
struct comparison {
  uint64_t got, want;
  int64_t elements;
  double atol, rtol;
};

/// Bytes of a tensor with this content.
uint64_t bytes_of(const quern_content& what);

// Each queues one kernel on the stream; the result is the launch's. Checks add to *finding, whose
// `wrong` must be 0 and `first` ~0 before.
cudaError_t fill_tensor(cudaStream_t stream, uint64_t address, const quern_content& what);
/// `count` elements: runs of `run` >= 1 neighbours, `stride` from start to start.
cudaError_t fill_elements(cudaStream_t stream, uint64_t address, const quern_content& what,
                          int64_t first, int64_t count, int64_t run, int64_t stride);
cudaError_t check_tensor(cudaStream_t stream, uint64_t address, const quern_content& what,
                         quern_finding* finding);
cudaError_t set_words(cudaStream_t stream, uint64_t address, uint64_t bytes, uint32_t word);
cudaError_t check_words(cudaStream_t stream, uint64_t address, uint64_t bytes, uint32_t word,
                        quern_finding* finding);
/// `type`: QUERN_F32 …; `wide`: `want` is f64.
cudaError_t compare_tensors(cudaStream_t stream, int32_t type, bool wide, const comparison& what,
                            quern_finding* finding);
cudaError_t compare_bits(cudaStream_t stream, int32_t type, const comparison& what,
                         quern_finding* finding);
/// Reads `bytes` and keeps nothing of it but a sum that is never zero's sign; flushes what the
/// second-level cache held.
cudaError_t read_through(cudaStream_t stream, const void* from, uint64_t bytes, uint32_t* sink);

}  // namespace quern::gpu
