// libquern_cuda.so: everything that needs nvcc. Loaded where a device is
// (env/device/gpu_probe.cpp).
#include <cstdio>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

#include "env/device/cuda_part.h"
#include "env/device/part_builds.h"

namespace {

constexpr int threads = 256;
constexpr int blocks = 64;
constexpr int elements = 1 << 20;

/// One partial sum of i % 7 a block: registers, shared memory and the grid all have to work.
__global__ void sum_blocks(int count, unsigned long long* sums) {
  __shared__ unsigned long long part[threads];
  unsigned long long own = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    own += static_cast<unsigned>(i) % 7U;
  part[threadIdx.x] = own;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

/// Device memory that is given back.
class device_sums {
 public:
  device_sums() : state(cudaMalloc(&data, blocks * sizeof *data)) {}
  ~device_sums() {
    if (data != nullptr) (void)cudaFree(data);
  }
  device_sums(const device_sums&) = delete;
  device_sums& operator=(const device_sums&) = delete;

  unsigned long long* data = nullptr;
  cudaError_t state;
};

cudaError_t run_sums(unsigned long long& total) {
  const device_sums sums;
  if (sums.state != cudaSuccess) return sums.state;
  sum_blocks<<<blocks, threads>>>(elements, sums.data);
  if (const auto launched = cudaGetLastError(); launched != cudaSuccess) return launched;
  std::vector<unsigned long long> host(blocks);
  const auto copied =
      cudaMemcpy(host.data(), sums.data, blocks * sizeof host[0], cudaMemcpyDeviceToHost);
  if (copied != cudaSuccess) return copied;
  total = 0;
  for (const auto part : host)
    total += part;
  return cudaSuccess;
}

unsigned long long right_total() {
  unsigned long long total = 0;
  for (unsigned i = 0; i < elements; ++i)
    total += i % 7U;
  return total;
}

void tell(char* to, size_t room, const char* what, cudaError_t error) {
  std::snprintf(to, room, "%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

/// Needs no context. Whether all could be told.
bool name_device(int device, quern_gpu& out) {
  out = {};
  cudaDeviceProp facts{};
  if (const auto e = cudaGetDeviceProperties(&facts, device); e != cudaSuccess) {
    tell(out.problem, sizeof out.problem, "reading its properties", e);
    return false;
  }
  std::snprintf(out.name, sizeof out.name, "%s", facts.name);
  out.major = facts.major;
  out.minor = facts.minor;
  out.multiprocessors = facts.multiProcessorCount;
  out.memory_bytes = facts.totalGlobalMem;
  const auto e = cudaDeviceGetPCIBusId(out.bus_id, sizeof out.bus_id, device);
  if (e != cudaSuccess) tell(out.problem, sizeof out.problem, "reading its PCI address", e);
  return e == cudaSuccess;
}

void look_at(int device, quern_gpu& out) {
  if (!name_device(device, out)) return;
  if (const auto e = cudaSetDevice(device); e != cudaSuccess)
    return tell(out.problem, sizeof out.problem, "taking it", e);
  size_t free_bytes = 0, all_bytes = 0;
  if (const auto e = cudaMemGetInfo(&free_bytes, &all_bytes); e != cudaSuccess)
    return tell(out.problem, sizeof out.problem, "making a context", e);
  out.free_bytes = free_bytes;
  unsigned long long total = 0;
  if (const auto e = run_sums(total); e != cudaSuccess)
    return tell(out.problem, sizeof out.problem, "running a kernel", e);
  if (total != right_total()) {
    std::snprintf(out.problem, sizeof out.problem, "a kernel summed to %llu, not to %llu", total,
                  right_total());
    return;
  }
  out.computes = 1;
}

/// How many devices there are; -1 with a problem.
int32_t count_devices(char* problem, int32_t room) {
  int count = 0;
  const auto e = cudaGetDeviceCount(&count);
  if (e != cudaSuccess) tell(problem, static_cast<size_t>(room), "counting devices", e);
  return e == cudaSuccess ? count : -1;
}

}  // namespace

extern "C" int32_t quern_cuda_probe(quern_gpu* devices, int32_t capacity, char* problem,
                                    int32_t room) {
  const int32_t count = count_devices(problem, room);
  for (int32_t device = 0; device < count && device < capacity; ++device)
    look_at(device, devices[device]);
  return count;
}

extern "C" int32_t quern_cuda_list(quern_gpu* devices, int32_t capacity, char* problem,
                                   int32_t room) {
  const int32_t count = count_devices(problem, room);
  for (int32_t device = 0; device < count && device < capacity; ++device)
    (void)name_device(device, devices[device]);
  return count;
}

extern "C" const char* quern_cuda_build(void) {
  return QUERN_CUDA_PART_BUILD;
}

extern "C" void quern_cuda_versions(int32_t* driver, int32_t* built_with) {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess) version = 0;
  *driver = version;
  *built_with = CUDART_VERSION;
}
