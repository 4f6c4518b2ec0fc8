// The evaluator's side of a device.
#include <cstdarg>
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>
#include <unistd.h>

#include "env/device/context_part.h"
#include "env/device/driver.hpp"
#include "env/device/tensors.cuh"

using quern::gpu::driver;

struct quern_context {
  int device = 0;
  const driver* api = nullptr;
  cudaStream_t stream = nullptr, copies = nullptr;
  quern_finding* findings = nullptr;  // on the device
  std::vector<quern_finding> host;
  int32_t queued = 0;
  uint64_t granularity = 0;
  char problem[512] = {};
};

namespace {

int32_t complain(quern_context* context, const char* format, ...) {
  va_list rest;
  va_start(rest, format);
  std::vsnprintf(context->problem, sizeof context->problem, format, rest);
  va_end(rest);
  return -1;
}

int32_t settle(quern_context* context, cudaError_t e, const char* what) {
  if (e == cudaSuccess) return 0;
  return complain(context, "%s: %s (%s)", what, cudaGetErrorString(e), cudaGetErrorName(e));
}

int32_t settle(quern_context* context, CUresult e, const char* what) {
  if (e == CUDA_SUCCESS) return 0;
  return complain(context, "%s: %s", what, quern::gpu::name_of(*context->api, e));
}

/// The calling thread may have worked on another device before.
void use(const quern_context* context) {
  (void)cudaSetDevice(context->device);
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
quern_finding* next_finding(quern_context* context) {
  if (context->queued >= QUERN_MOST_FINDINGS) return nullptr;
  return context->findings + context->queued++;
}

int32_t clear_findings(quern_context* context) {
  context->queued = 0;
  // `first` is all ones in every place, `wrong` none; one copy of a prepared picture.
  for (auto& f : context->host)
    f = {0, ~0ULL};
  return settle(context,
                cudaMemcpyAsync(context->findings, context->host.data(),
                                context->host.size() * sizeof context->host[0],
                                cudaMemcpyHostToDevice, context->stream),
                "clearing findings");
}

int32_t set_up(quern_context* context) {
  const char* missing = nullptr;
  if (const auto e = cudaSetDevice(context->device); e != cudaSuccess)
    return settle(context, e, "taking the device");
  context->api = quern::gpu::find_driver(&missing);
  if (context->api == nullptr)
    return complain(context, "the driver has no %s: it is too old for this build", missing);
  if (settle(context, cudaStreamCreateWithFlags(&context->stream, cudaStreamNonBlocking),
             "a stream") < 0 ||
      settle(context, cudaStreamCreateWithFlags(&context->copies, cudaStreamNonBlocking),
             "a stream of copies") < 0)
    return -1;
  if (settle(context,
             cudaMalloc(&context->findings, QUERN_MOST_FINDINGS * sizeof *context->findings),
             "memory for findings") < 0)
    return -1;
  context->host.resize(QUERN_MOST_FINDINGS);
  const auto wanted = properties(context->device);
  size_t granularity = 0;
  if (settle(context,
             context->api->granularity(&granularity, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
             "the granularity of allocations") < 0)
    return -1;
  context->granularity = granularity;
  return clear_findings(context);
}

}  // namespace

extern "C" int32_t quern_context_open(int32_t device, quern_context** out, char* problem,
                                      int32_t room) {
  auto* context = new quern_context;
  context->device = device;
  if (set_up(context) < 0) {
    std::snprintf(problem, static_cast<size_t>(room), "%s", context->problem);
    quern_context_close(context);
    return -1;
  }
  *out = context;
  return 0;
}

extern "C" void quern_context_close(quern_context* context) {
  use(context);
  if (context->findings != nullptr) (void)cudaFree(context->findings);
  for (const cudaStream_t stream : {context->stream, context->copies})
    if (stream != nullptr) (void)cudaStreamDestroy(stream);
  delete context;
}

extern "C" int32_t quern_context_end_cuda(int32_t device) {
  if (cudaSetDevice(device) != cudaSuccess) return -1;
  return cudaDeviceReset() == cudaSuccess ? 0 : -1;
}

extern "C" const char* quern_context_problem(const quern_context* context) {
  return context->problem;
}

extern "C" int32_t quern_context_facts_of(quern_context* context, quern_context_facts* out) {
  use(context);
  *out = {};
  cudaDeviceProp facts{};
  if (settle(context, cudaGetDeviceProperties(&facts, context->device), "reading its properties") <
      0)
    return -1;
  std::snprintf(out->name, sizeof out->name, "%s", facts.name);
  out->major = facts.major;
  out->minor = facts.minor;
  out->multiprocessors = facts.multiProcessorCount;
  out->memory_bytes = facts.totalGlobalMem;
  out->l2_bytes = static_cast<uint64_t>(facts.l2CacheSize);
  out->granularity = context->granularity;
  out->max_shared_bytes = static_cast<int32_t>(facts.sharedMemPerBlockOptin);
  out->bus_bits = facts.memoryBusWidth;
  int clock = 0;
  if (settle(context, cudaDeviceGetAttribute(&clock, cudaDevAttrMemoryClockRate, context->device),
             "reading its memory clock") < 0)
    return -1;
  out->memory_clock_khz = clock;
  return settle(context, cudaDeviceGetPCIBusId(out->bus_id, sizeof out->bus_id, context->device),
                "reading its PCI address");
}

extern "C" int32_t quern_context_free_bytes(quern_context* context, uint64_t* out) {
  use(context);
  size_t free_bytes = 0, all_bytes = 0;
  if (settle(context, cudaMemGetInfo(&free_bytes, &all_bytes), "reading free memory") < 0)
    return -1;
  *out = free_bytes;
  return 0;
}

extern "C" int32_t quern_context_allocate(quern_context* context, uint64_t bytes,
                                          quern_allocation* out) {
  use(context);
  *out = {};
  out->fd = -1;
  const uint64_t unit = context->granularity;
  const uint64_t rounded = (bytes + unit - 1) / unit * unit;
  const auto wanted = properties(context->device);
  CUmemGenericAllocationHandle handle = 0;
  if (const auto e = context->api->mem_create(&handle, rounded, &wanted, 0); e != CUDA_SUCCESS)
    return complain(context, "%llu bytes of device memory: %s",
                    static_cast<unsigned long long>(rounded),
                    quern::gpu::name_of(*context->api, e));
  quern::gpu::mapping m;
  if (settle(
          context,
          quern::gpu::map_allocation(*context->api, context->device, handle, rounded, 0, true, m),
          "mapping device memory") < 0) {
    (void)context->api->mem_release(handle);
    return -1;
  }
  int fd = -1;
  if (settle(context,
             context->api->export_handle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
             "exporting device memory") < 0) {
    (void)quern::gpu::unmap_allocation(*context->api, m);
    return -1;
  }
  *out = {m.address, rounded, handle, fd};
  return 0;
}

extern "C" int32_t quern_context_release(quern_context* context, quern_allocation* allocation) {
  use(context);
  // Nothing that is still queued may touch it.
  int32_t waited = 0;
  for (const cudaStream_t stream : {context->stream, context->copies}) {
    const int32_t one = settle(context, cudaStreamSynchronize(stream), "waiting for the device");
    waited = waited < 0 ? waited : one;
  }
  quern::gpu::mapping m{allocation->address, allocation->bytes, allocation->handle};
  const auto unmapped = quern::gpu::unmap_allocation(*context->api, m);
  if (allocation->fd >= 0) close(allocation->fd);
  *allocation = {};
  allocation->fd = -1;
  // Of a broken CUDA context nothing else is to be expected.
  return waited < 0 ? waited : settle(context, unmapped, "giving device memory back");
}

extern "C" int32_t quern_context_fill(quern_context* context, uint64_t address,
                                      const quern_content* what) {
  use(context);
  return settle(context, quern::gpu::fill_tensor(context->stream, address, *what),
                "filling a tensor");
}

extern "C" int32_t quern_context_fill_some(quern_context* context, uint64_t address,
                                           const quern_content* what, int64_t first,
                                           int64_t count) {
  use(context);
  if (first < 0 || count < 0 || first > what->elements || count > what->elements - first)
    return complain(context, "%lld elements from %lld of %lld", static_cast<long long>(count),
                    static_cast<long long>(first), static_cast<long long>(what->elements));
  return settle(
      context,
      quern::gpu::fill_elements(context->stream, address, *what, first, count, count, count),
      "filling elements");
}

extern "C" int32_t quern_context_set(quern_context* context, uint64_t address, uint64_t bytes,
                                     uint32_t word) {
  use(context);
  if (address % 4 != 0 || bytes % 4 != 0)
    return complain(context, "patterns have words of 4 bytes; address or length are no multiple");
  return settle(context, quern::gpu::set_words(context->stream, address, bytes, word),
                "setting memory");
}

extern "C" int32_t quern_context_copy(quern_context* context, uint64_t to, uint64_t from,
                                      uint64_t bytes) {
  use(context);
  return settle(context,
                cudaMemcpyAsync(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from),
                                bytes, cudaMemcpyDeviceToDevice, context->stream),
                "copying on the device");
}

extern "C" int32_t quern_context_compare(quern_context* context, uint64_t got, uint64_t want,
                                         int32_t type, int64_t elements, double atol, double rtol,
                                         int32_t wide) {
  use(context);
  auto* place = next_finding(context);
  if (place == nullptr) return complain(context, "more than %d checks queued", QUERN_MOST_FINDINGS);
  return settle(context,
                quern::gpu::compare_tensors(context->stream, type, wide != 0,
                                            {got, want, elements, atol, rtol}, place),
                "comparing");
}

extern "C" int32_t quern_context_same_bits(quern_context* context, uint64_t a, uint64_t b,
                                           int32_t type, int64_t elements) {
  use(context);
  auto* place = next_finding(context);
  if (place == nullptr) return complain(context, "more than %d checks queued", QUERN_MOST_FINDINGS);
  return settle(context,
                quern::gpu::compare_bits(context->stream, type, {a, b, elements, 0, 0}, place),
                "comparing bits");
}

extern "C" int32_t quern_context_check_content(quern_context* context, uint64_t address,
                                               const quern_content* what) {
  use(context);
  auto* place = next_finding(context);
  if (place == nullptr) return complain(context, "more than %d checks queued", QUERN_MOST_FINDINGS);
  return settle(context, quern::gpu::check_tensor(context->stream, address, *what, place),
                "checking content");
}

extern "C" int32_t quern_context_check_pattern(quern_context* context, uint64_t address,
                                               uint64_t bytes, uint32_t word) {
  use(context);
  if (address % 4 != 0 || bytes % 4 != 0)
    return complain(context, "patterns have words of 4 bytes; address or length are no multiple");
  auto* place = next_finding(context);
  if (place == nullptr) return complain(context, "more than %d checks queued", QUERN_MOST_FINDINGS);
  return settle(context, quern::gpu::check_words(context->stream, address, bytes, word, place),
                "checking a pattern");
}

extern "C" int32_t quern_context_wait(quern_context* context, quern_finding* out, int32_t capacity,
                                      int32_t* count) {
  use(context);
  const int32_t queued = context->queued;
  *count = 0;
  if (queued == 0) return settle(context, cudaStreamSynchronize(context->stream), "waiting");
  if (queued > capacity) return complain(context, "%d findings, room for %d", queued, capacity);
  const auto bytes = static_cast<size_t>(queued) * sizeof(quern_finding);
  if (settle(
          context,
          cudaMemcpyAsync(out, context->findings, bytes, cudaMemcpyDeviceToHost, context->stream),
          "reading findings") < 0 ||
      settle(context, cudaStreamSynchronize(context->stream), "waiting") < 0)
    return -1;
  *count = queued;
  return clear_findings(context);
}

extern "C" int32_t quern_context_read(quern_context* context, void* to, uint64_t from,
                                      uint64_t bytes) {
  use(context);
  if (settle(context,
             cudaMemcpyAsync(to, reinterpret_cast<const void*>(from), bytes, cudaMemcpyDeviceToHost,
                             context->stream),
             "reading device memory") < 0)
    return -1;
  return settle(context, cudaStreamSynchronize(context->stream), "reading device memory");
}

extern "C" int32_t quern_context_write(quern_context* context, uint64_t to, const void* from,
                                       uint64_t bytes) {
  use(context);
  if (settle(context,
             cudaMemcpyAsync(reinterpret_cast<void*>(to), from, bytes, cudaMemcpyHostToDevice,
                             context->stream),
             "writing device memory") < 0)
    return -1;
  return settle(context, cudaStreamSynchronize(context->stream), "writing device memory");
}

extern "C" int32_t quern_context_pin(quern_context* context, uint64_t bytes, void** out) {
  use(context);
  return settle(context, cudaHostAlloc(out, bytes, cudaHostAllocDefault), "memory of the host");
}

extern "C" int32_t quern_context_unpin(quern_context* context, void* memory) {
  use(context);
  return settle(context, cudaFreeHost(memory), "giving memory of the host back");
}

extern "C" int32_t quern_context_send(quern_context* context, uint64_t to, const void* from,
                                      const quern_byte_rows* rows) {
  use(context);
  return settle(
      context,
      cudaMemcpy2DAsync(reinterpret_cast<void*>(to), rows->device_pitch, from, rows->host_pitch,
                        rows->width, rows->rows, cudaMemcpyHostToDevice, context->copies),
      "sending rows");
}

extern "C" int32_t quern_context_fetch(quern_context* context, void* to, uint64_t from,
                                       const quern_byte_rows* rows) {
  use(context);
  return settle(context,
                cudaMemcpy2DAsync(to, rows->host_pitch, reinterpret_cast<const void*>(from),
                                  rows->device_pitch, rows->width, rows->rows,
                                  cudaMemcpyDeviceToHost, context->copies),
                "fetching rows");
}

extern "C" int32_t quern_context_wait_copies(quern_context* context) {
  use(context);
  return settle(context, cudaStreamSynchronize(context->copies), "waiting for copies");
}

extern "C" int32_t quern_context_copy_rows(quern_context* context, uint64_t to, uint64_t from,
                                           uint64_t width, uint64_t rows, uint64_t pitch) {
  use(context);
  return settle(
      context,
      cudaMemcpy2DAsync(reinterpret_cast<void*>(to), pitch, reinterpret_cast<const void*>(from),
                        pitch, width, rows, cudaMemcpyDeviceToDevice, context->stream),
      "copying rows on the device");
}

extern "C" int32_t quern_context_bandwidth(quern_context* context, uint64_t bytes, double* out) {
  use(context);
  quern_allocation allocation;
  const uint64_t half = (bytes / 2 + 255) / 256 * 256;
  if (quern_context_allocate(context, 2 * half, &allocation) < 0) return -1;
  cudaEvent_t start = nullptr, end = nullptr;
  float ms = 0;
  double best = 0;
  cudaError_t e = cudaEventCreate(&start);
  if (e == cudaSuccess) e = cudaEventCreate(&end);
  for (int i = 0; i < 6 && e == cudaSuccess; ++i) {
    e = cudaEventRecord(start, context->stream);
    if (e == cudaSuccess)
      e = cudaMemcpyAsync(reinterpret_cast<void*>(allocation.address + half),
                          reinterpret_cast<const void*>(allocation.address), half,
                          cudaMemcpyDeviceToDevice, context->stream);
    if (e == cudaSuccess) e = cudaEventRecord(end, context->stream);
    if (e == cudaSuccess) e = cudaEventSynchronize(end);
    if (e == cudaSuccess) e = cudaEventElapsedTime(&ms, start, end);
    if (e == cudaSuccess && ms > 0 && i > 0) {
      const double speed = 2.0 * static_cast<double>(half) / (1e-3 * static_cast<double>(ms));
      best = speed > best ? speed : best;
    }
  }
  if (start != nullptr) (void)cudaEventDestroy(start);
  if (end != nullptr) (void)cudaEventDestroy(end);
  const int32_t measured = settle(context, e, "measuring bandwidth");
  const int32_t released = quern_context_release(context, &allocation);
  *out = best;
  return measured < 0 ? measured : released;
}
