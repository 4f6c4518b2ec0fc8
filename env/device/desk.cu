// The evaluator's side of a device.
#include <cstdarg>
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>
#include <unistd.h>

#include "env/device/desk_part.h"
#include "env/device/driver.hpp"
#include "env/device/tensors.cuh"

using quern::gpu::driver;

struct quern_desk {
  int device = 0;
  const driver* api = nullptr;
  cudaStream_t stream = nullptr;
  quern_finding* findings = nullptr;  // on the device
  std::vector<quern_finding> host;
  int32_t queued = 0;
  uint64_t granularity = 0;
  char problem[512] = {};
};

namespace {

int32_t complain(quern_desk* desk, const char* format, ...) {
  va_list rest;
  va_start(rest, format);
  std::vsnprintf(desk->problem, sizeof desk->problem, format, rest);
  va_end(rest);
  return -1;
}

int32_t settle(quern_desk* desk, cudaError_t e, const char* what) {
  if (e == cudaSuccess) return 0;
  return complain(desk, "%s: %s (%s)", what, cudaGetErrorString(e), cudaGetErrorName(e));
}

int32_t settle(quern_desk* desk, CUresult e, const char* what) {
  if (e == CUDA_SUCCESS) return 0;
  return complain(desk, "%s: %s", what, quern::gpu::name_of(*desk->api, e));
}

/// The calling thread may have worked on another device before.
void use(const quern_desk* desk) {
  (void)cudaSetDevice(desk->device);
}

CUmemAllocationProp properties(int device) {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.location.id = device;
  return wanted;
}

/// Place of the next finding; null when there are too many.
quern_finding* next_finding(quern_desk* desk) {
  if (desk->queued >= QUERN_MOST_FINDINGS) return nullptr;
  return desk->findings + desk->queued++;
}

int32_t clear_findings(quern_desk* desk) {
  desk->queued = 0;
  // `first` is all ones in every place, `wrong` none; one copy of a prepared picture.
  for (auto& f : desk->host)
    f = {0, ~0ULL};
  return settle(
      desk,
      cudaMemcpyAsync(desk->findings, desk->host.data(), desk->host.size() * sizeof desk->host[0],
                      cudaMemcpyHostToDevice, desk->stream),
      "clearing findings");
}

int32_t set_up(quern_desk* desk) {
  const char* missing = nullptr;
  if (const auto e = cudaSetDevice(desk->device); e != cudaSuccess)
    return settle(desk, e, "taking the device");
  desk->api = quern::gpu::find_driver(&missing);
  if (desk->api == nullptr)
    return complain(desk, "the driver has no %s: it is too old for this build", missing);
  if (settle(desk, cudaStreamCreateWithFlags(&desk->stream, cudaStreamNonBlocking), "a stream") < 0)
    return -1;
  if (settle(desk, cudaMalloc(&desk->findings, QUERN_MOST_FINDINGS * sizeof *desk->findings),
             "memory for findings") < 0)
    return -1;
  desk->host.resize(QUERN_MOST_FINDINGS);
  const auto wanted = properties(desk->device);
  size_t granularity = 0;
  if (settle(desk,
             desk->api->granularity(&granularity, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
             "the granularity of allocations") < 0)
    return -1;
  desk->granularity = granularity;
  return clear_findings(desk);
}

}  // namespace

extern "C" int32_t quern_desk_open(int32_t device, quern_desk** out, char* problem, int32_t room) {
  auto* desk = new quern_desk;
  desk->device = device;
  if (set_up(desk) < 0) {
    std::snprintf(problem, static_cast<size_t>(room), "%s", desk->problem);
    quern_desk_close(desk);
    return -1;
  }
  *out = desk;
  return 0;
}

extern "C" void quern_desk_close(quern_desk* desk) {
  use(desk);
  if (desk->findings != nullptr) (void)cudaFree(desk->findings);
  if (desk->stream != nullptr) (void)cudaStreamDestroy(desk->stream);
  delete desk;
}

extern "C" int32_t quern_desk_end_context(int32_t device) {
  if (cudaSetDevice(device) != cudaSuccess) return -1;
  return cudaDeviceReset() == cudaSuccess ? 0 : -1;
}

extern "C" const char* quern_desk_problem(const quern_desk* desk) {
  return desk->problem;
}

extern "C" int32_t quern_desk_facts_of(quern_desk* desk, quern_desk_facts* out) {
  use(desk);
  *out = {};
  cudaDeviceProp facts{};
  if (settle(desk, cudaGetDeviceProperties(&facts, desk->device), "reading its properties") < 0)
    return -1;
  std::snprintf(out->name, sizeof out->name, "%s", facts.name);
  out->major = facts.major;
  out->minor = facts.minor;
  out->multiprocessors = facts.multiProcessorCount;
  out->memory_bytes = facts.totalGlobalMem;
  out->l2_bytes = static_cast<uint64_t>(facts.l2CacheSize);
  out->granularity = desk->granularity;
  out->max_shared_bytes = static_cast<int32_t>(facts.sharedMemPerBlockOptin);
  out->bus_bits = facts.memoryBusWidth;
  int clock = 0;
  if (settle(desk, cudaDeviceGetAttribute(&clock, cudaDevAttrMemoryClockRate, desk->device),
             "reading its memory clock") < 0)
    return -1;
  out->memory_clock_khz = clock;
  return settle(desk, cudaDeviceGetPCIBusId(out->bus_id, sizeof out->bus_id, desk->device),
                "reading its PCI address");
}

extern "C" int32_t quern_desk_free_bytes(quern_desk* desk, uint64_t* out) {
  use(desk);
  size_t free_bytes = 0, all_bytes = 0;
  if (settle(desk, cudaMemGetInfo(&free_bytes, &all_bytes), "reading free memory") < 0) return -1;
  *out = free_bytes;
  return 0;
}

extern "C" int32_t quern_desk_allocate(quern_desk* desk, uint64_t bytes, quern_piece* out) {
  use(desk);
  *out = {};
  out->fd = -1;
  const uint64_t unit = desk->granularity;
  const uint64_t rounded = (bytes + unit - 1) / unit * unit;
  const auto wanted = properties(desk->device);
  CUmemGenericAllocationHandle handle = 0;
  if (const auto e = desk->api->mem_create(&handle, rounded, &wanted, 0); e != CUDA_SUCCESS)
    return complain(desk, "%llu bytes of device memory: %s",
                    static_cast<unsigned long long>(rounded), quern::gpu::name_of(*desk->api, e));
  quern::gpu::mapping m;
  if (settle(desk,
             quern::gpu::map_allocation(*desk->api, desk->device, handle, rounded, 0, true, m),
             "mapping device memory") < 0) {
    (void)desk->api->mem_release(handle);
    return -1;
  }
  int fd = -1;
  if (settle(desk,
             desk->api->export_handle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
             "exporting device memory") < 0) {
    (void)quern::gpu::unmap_allocation(*desk->api, m);
    return -1;
  }
  *out = {m.address, rounded, handle, fd};
  return 0;
}

extern "C" int32_t quern_desk_release(quern_desk* desk, quern_piece* piece) {
  use(desk);
  // Nothing that is still queued may touch it.
  const int32_t waited =
      settle(desk, cudaStreamSynchronize(desk->stream), "waiting for the device");
  quern::gpu::mapping m{piece->address, piece->bytes, piece->handle};
  const auto unmapped = quern::gpu::unmap_allocation(*desk->api, m);
  if (piece->fd >= 0) close(piece->fd);
  *piece = {};
  piece->fd = -1;
  // Of a broken context nothing else is to be expected.
  return waited < 0 ? waited : settle(desk, unmapped, "giving device memory back");
}

extern "C" int32_t quern_desk_fill(quern_desk* desk, uint64_t address, const quern_content* what) {
  use(desk);
  return settle(desk, quern::gpu::fill_tensor(desk->stream, address, *what), "filling a tensor");
}

extern "C" int32_t quern_desk_fill_some(quern_desk* desk, uint64_t address,
                                        const quern_content* what, int64_t first, int64_t count) {
  use(desk);
  if (first < 0 || count < 0 || first > what->elements || count > what->elements - first)
    return complain(desk, "%lld elements from %lld of %lld", static_cast<long long>(count),
                    static_cast<long long>(first), static_cast<long long>(what->elements));
  return settle(desk,
                quern::gpu::fill_elements(desk->stream, address, *what, first, count, count, count),
                "filling elements");
}

extern "C" int32_t quern_desk_set(quern_desk* desk, uint64_t address, uint64_t bytes,
                                  uint32_t word) {
  use(desk);
  if (address % 4 != 0 || bytes % 4 != 0)
    return complain(desk, "patterns have words of 4 bytes; address or length are no multiple");
  return settle(desk, quern::gpu::set_words(desk->stream, address, bytes, word), "setting memory");
}

extern "C" int32_t quern_desk_copy(quern_desk* desk, uint64_t to, uint64_t from, uint64_t bytes) {
  use(desk);
  return settle(desk,
                cudaMemcpyAsync(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from),
                                bytes, cudaMemcpyDeviceToDevice, desk->stream),
                "copying on the device");
}

extern "C" int32_t quern_desk_compare(quern_desk* desk, uint64_t got, uint64_t want, int32_t type,
                                      int64_t elements, double atol, double rtol, int32_t wide) {
  use(desk);
  auto* place = next_finding(desk);
  if (place == nullptr) return complain(desk, "more than %d checks queued", QUERN_MOST_FINDINGS);
  return settle(desk,
                quern::gpu::compare_tensors(desk->stream, type, wide != 0,
                                            {got, want, elements, atol, rtol}, place),
                "comparing");
}

extern "C" int32_t quern_desk_same_bits(quern_desk* desk, uint64_t a, uint64_t b, int32_t type,
                                        int64_t elements) {
  use(desk);
  auto* place = next_finding(desk);
  if (place == nullptr) return complain(desk, "more than %d checks queued", QUERN_MOST_FINDINGS);
  return settle(desk, quern::gpu::compare_bits(desk->stream, type, {a, b, elements, 0, 0}, place),
                "comparing bits");
}

extern "C" int32_t quern_desk_check_content(quern_desk* desk, uint64_t address,
                                            const quern_content* what) {
  use(desk);
  auto* place = next_finding(desk);
  if (place == nullptr) return complain(desk, "more than %d checks queued", QUERN_MOST_FINDINGS);
  return settle(desk, quern::gpu::check_tensor(desk->stream, address, *what, place),
                "checking content");
}

extern "C" int32_t quern_desk_check_pattern(quern_desk* desk, uint64_t address, uint64_t bytes,
                                            uint32_t word) {
  use(desk);
  if (address % 4 != 0 || bytes % 4 != 0)
    return complain(desk, "patterns have words of 4 bytes; address or length are no multiple");
  auto* place = next_finding(desk);
  if (place == nullptr) return complain(desk, "more than %d checks queued", QUERN_MOST_FINDINGS);
  return settle(desk, quern::gpu::check_words(desk->stream, address, bytes, word, place),
                "checking a pattern");
}

extern "C" int32_t quern_desk_wait(quern_desk* desk, quern_finding* out, int32_t capacity,
                                   int32_t* count) {
  use(desk);
  const int32_t queued = desk->queued;
  *count = 0;
  if (queued == 0) return settle(desk, cudaStreamSynchronize(desk->stream), "waiting");
  if (queued > capacity) return complain(desk, "%d findings, room for %d", queued, capacity);
  const auto bytes = static_cast<size_t>(queued) * sizeof(quern_finding);
  if (settle(desk,
             cudaMemcpyAsync(out, desk->findings, bytes, cudaMemcpyDeviceToHost, desk->stream),
             "reading findings") < 0 ||
      settle(desk, cudaStreamSynchronize(desk->stream), "waiting") < 0)
    return -1;
  *count = queued;
  return clear_findings(desk);
}

extern "C" int32_t quern_desk_read(quern_desk* desk, void* to, uint64_t from, uint64_t bytes) {
  use(desk);
  if (settle(desk,
             cudaMemcpyAsync(to, reinterpret_cast<const void*>(from), bytes, cudaMemcpyDeviceToHost,
                             desk->stream),
             "reading device memory") < 0)
    return -1;
  return settle(desk, cudaStreamSynchronize(desk->stream), "reading device memory");
}

extern "C" int32_t quern_desk_write(quern_desk* desk, uint64_t to, const void* from,
                                    uint64_t bytes) {
  use(desk);
  if (settle(desk,
             cudaMemcpyAsync(reinterpret_cast<void*>(to), from, bytes, cudaMemcpyHostToDevice,
                             desk->stream),
             "writing device memory") < 0)
    return -1;
  return settle(desk, cudaStreamSynchronize(desk->stream), "writing device memory");
}

extern "C" int32_t quern_desk_bandwidth(quern_desk* desk, uint64_t bytes, double* out) {
  use(desk);
  quern_piece piece;
  const uint64_t half = (bytes / 2 + 255) / 256 * 256;
  if (quern_desk_allocate(desk, 2 * half, &piece) < 0) return -1;
  cudaEvent_t start = nullptr, end = nullptr;
  float ms = 0;
  double best = 0;
  cudaError_t e = cudaEventCreate(&start);
  if (e == cudaSuccess) e = cudaEventCreate(&end);
  for (int i = 0; i < 6 && e == cudaSuccess; ++i) {
    e = cudaEventRecord(start, desk->stream);
    if (e == cudaSuccess)
      e = cudaMemcpyAsync(reinterpret_cast<void*>(piece.address + half),
                          reinterpret_cast<const void*>(piece.address), half,
                          cudaMemcpyDeviceToDevice, desk->stream);
    if (e == cudaSuccess) e = cudaEventRecord(end, desk->stream);
    if (e == cudaSuccess) e = cudaEventSynchronize(end);
    if (e == cudaSuccess) e = cudaEventElapsedTime(&ms, start, end);
    if (e == cudaSuccess && ms > 0 && i > 0) {
      const double speed = 2.0 * static_cast<double>(half) / (1e-3 * static_cast<double>(ms));
      best = speed > best ? speed : best;
    }
  }
  if (start != nullptr) (void)cudaEventDestroy(start);
  if (end != nullptr) (void)cudaEventDestroy(end);
  const int32_t measured = settle(desk, e, "measuring bandwidth");
  const int32_t released = quern_desk_release(desk, &piece);
  *out = best;
  return measured < 0 ? measured : released;
}
