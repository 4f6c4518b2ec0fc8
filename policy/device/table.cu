// The table of libquern_policy_cuda.so.
#include <cuda_runtime.h>

#include "policy/device/functions.hpp"

namespace {

using namespace quern::policy;

const char* problem(int32_t code) {
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}

int32_t memory(int64_t* free_bytes, int64_t* total_bytes) {
  size_t free = 0, total = 0;
  const auto code = cudaMemGetInfo(&free, &total);
  *free_bytes = static_cast<int64_t>(free);
  *total_bytes = static_cast<int64_t>(total);
  return static_cast<int32_t>(code);
}

int32_t multiprocessors(int32_t* count) {
  int device = 0;
  auto code = cudaGetDevice(&device);
  if (code == cudaSuccess)
    code = cudaDeviceGetAttribute(count, cudaDevAttrMultiProcessorCount, device);
  return static_cast<int32_t>(code);
}

const quern_policy_kernels table{
    "cuda",
    &problem,
    &memory,
    &multiprocessors,
    &device::add_rms_norm,
    &device::rms_norm_backward,
    &device::swiglu,
    &device::swiglu_backward,
    &device::split_heads,
    &device::split_heads_backward,
    &device::softmax_tile,
    &device::softmax_tile_backward,
    &device::log_softmax_rows,
    &device::log_softmax_gradient,
    &device::adamw,
    &device::apply_edits,
    &device::begin_pass,
    &device::take_rows,
    &device::heads_to_pages,
    &device::paged_attention,
    &device::gather_pages,
    &device::copy_pages,
    &device::sample,
    &device::few_rows_product,
    &device::few_rows_swiglu,
    &device::hash_elements,
};

}  // namespace

extern "C" const quern_policy_kernels* quern_policy_cuda_kernels(void) {
  return &table;
}
