// What stands before a call, in one kernel.
#include "env/device/elements.cuh"
#include "env/device/preparation.cuh"

namespace quern::gpu {
namespace {

// No two of them overlap, so blocks go from one to the next without waiting for others.
__global__ void prepare_kernel(const __grid_constant__ preparation what) {
  for (int32_t i = 0; i < what.tensors; ++i) {
    void* const out = reinterpret_cast<void*>(what.tensor[i]);
    const quern_content& c = what.content[i];
    switch (c.type) {
      case QUERN_F32:
        fill(static_cast<float*>(out), c);
        break;
      case QUERN_F64:
        fill(static_cast<double*>(out), c);
        break;
      case QUERN_I32:
        fill(static_cast<int32_t*>(out), c);
        break;
      case QUERN_I64:
        fill(static_cast<int64_t*>(out), c);
        break;
      case QUERN_U8:
        fill(static_cast<uint8_t*>(out), c);
        break;
      case QUERN_BF16:
        fill(static_cast<__nv_bfloat16*>(out), c);
        break;
      default:
        fill(static_cast<__half*>(out), c);
    }
  }
  for (int32_t i = 0; i < what.stretches; ++i)
    set(reinterpret_cast<uint32_t*>(what.stretch[i]), what.words[i], what.word);
}

}  // namespace

void preparation::add(uint64_t address, const quern_content& what) {
  tensor[tensors] = address;
  content[tensors++] = what;
}

void preparation::add(uint64_t address, uint64_t bytes) {
  stretch[stretches] = address;
  words[stretches++] = static_cast<int64_t>(bytes / 4);
}

cudaError_t prepare(cudaStream_t stream, const preparation& what) {
  int64_t items = 0;
  for (int32_t i = 0; i < what.tensors; ++i) {
    if (what.content[i].type < QUERN_F32 || what.content[i].type > QUERN_F16)
      return cudaErrorInvalidValue;
    items += what.content[i].elements / 4;
  }
  for (int32_t i = 0; i < what.stretches; ++i)
    items += what.words[i] / 4;
  prepare_kernel<<<blocks_for(items), threads, 0, stream>>>(what);
  return cudaGetLastError();
}

}  // namespace quern::gpu
