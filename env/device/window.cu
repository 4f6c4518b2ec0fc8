// The runners' side of a device: windows of calls between events.
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

#include "env/device/driver.hpp"
#include "env/device/tensors.cuh"
#include "env/device/window_part.h"

using quern::gpu::driver;
using quern::gpu::mapping;

struct quern_window {
  int device = 0;
  const driver* api = nullptr;
  cudaStream_t stream = nullptr;
  uint8_t* flush = nullptr;
  uint64_t flush_bytes = 0;
  uint32_t* sink = nullptr;
  volatile uint32_t* gate = nullptr;  // host memory that the device sees
  uint32_t* gate_on_device = nullptr;
  uint32_t turn = 0;
  std::vector<cudaEvent_t> before, after;
  quern_window_settings how{};
  int32_t calls = 0;
  mapping pieces[QUERN_PIECES];
  mapping writable_inputs;
  quern_tensors tensors{};
  int32_t slots = 0;
  CUmodule module = nullptr;
  std::vector<CUfunction> kernels;
  std::vector<quern_step> steps;
  std::vector<quern_parameter> parameters;
  char problem[448] = {};
};

namespace {

int32_t complain(quern_window* w, const char* format, ...) {
  va_list rest;
  va_start(rest, format);
  std::vsnprintf(w->problem, sizeof w->problem, format, rest);
  va_end(rest);
  return -1;
}

int32_t settle(quern_window* w, cudaError_t e, const char* what) {
  if (e == cudaSuccess) return 0;
  return complain(w, "%s: %s", what, cudaGetErrorName(e));
}

int32_t settle(quern_window* w, CUresult e, const char* what) {
  if (e == CUDA_SUCCESS) return 0;
  return complain(w, "%s: %s", what, quern::gpu::name_of(*w->api, e));
}

/// Waits until the host has opened the gate, at most `timeout_ns`: a host that needs the device's
/// answer while it queues must not wait for ever.
__global__ void wait_at_gate(volatile uint32_t* gate, uint32_t turn, uint64_t timeout_ns) {
  uint64_t start = 0, now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    if (*gate == turn) return;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < timeout_ns);
}

int32_t set_up(quern_window* w, bool own_stream) {
  if (settle(w, cudaSetDevice(w->device), "taking the device") < 0) return -1;
  const char* missing = nullptr;
  w->api = quern::gpu::find_driver(&missing);
  if (w->api == nullptr)
    return complain(w, "the driver has no %s: it is too old for this build", missing);
  if (own_stream &&
      settle(w, cudaStreamCreateWithFlags(&w->stream, cudaStreamNonBlocking), "a stream") < 0)
    return -1;
  // No part of the cache is set aside for lines that a kernel asks to keep.
  if (settle(w, cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0), "the persisting cache") < 0)
    return -1;
  void* host = nullptr;
  if (settle(w, cudaHostAlloc(&host, 4096, cudaHostAllocMapped), "memory for the gate") < 0)
    return -1;
  std::memset(host, 0, 4096);
  w->gate = static_cast<volatile uint32_t*>(host);
  void* seen = nullptr;
  if (settle(w, cudaHostGetDevicePointer(&seen, host, 0), "memory for the gate") < 0) return -1;
  w->gate_on_device = static_cast<uint32_t*>(seen);
  if (settle(w, cudaMalloc(&w->sink, 256), "memory") < 0) return -1;
  w->before.resize(QUERN_MOST_CALLS);
  w->after.resize(QUERN_MOST_CALLS);
  for (auto* list : {&w->before, &w->after})
    for (auto& event : *list)
      if (settle(w, cudaEventCreate(&event), "an event") < 0) return -1;
  return 0;
}

int32_t make_flush(quern_window* w, uint64_t bytes) {
  if (bytes <= w->flush_bytes) return 0;
  if (w->flush != nullptr) (void)cudaFree(w->flush);
  w->flush = nullptr;
  w->flush_bytes = 0;
  if (settle(w, cudaMalloc(&w->flush, bytes), "memory to flush the cache with") < 0 ||
      settle(w, cudaMemsetAsync(w->flush, 0, bytes, w->stream), "memory to flush with") < 0)
    return -1;
  w->flush_bytes = bytes;
  return 0;
}

const mapping& piece_of(const quern_window* w, const quern_place& place) {
  return w->pieces[place.piece];
}

bool inside(const quern_window* w, const quern_place& place, uint64_t bytes) {
  if (place.piece < 0) return place.offset == 0 && bytes == 0;
  if (place.piece >= QUERN_PIECES) return false;
  const mapping& m = piece_of(w, place);
  return m.bytes != 0 && place.offset <= m.bytes && bytes <= m.bytes - place.offset;
}

CUdeviceptr address_of(const quern_window* w, const quern_place& place, int64_t slot) {
  if (place.piece < 0) return 0;
  return piece_of(w, place).address + place.offset + static_cast<uint64_t>(slot) * place.stride;
}

/// Whether the kernel's parameters are of the sizes that will be passed: the driver would read on.
bool parameters_fit(const quern_window* w, const quern_step& s, const quern_parameter* given) {
  const auto kernel = w->kernels[static_cast<size_t>(s.kernel)];
  size_t offset = 0, bytes = 0;
  for (uint32_t i = 0; i < s.parameters; ++i)
    if (w->api->parameter_info(kernel, i, &offset, &bytes) != CUDA_SUCCESS ||
        bytes != (given[i].bytes == 0 ? sizeof(CUdeviceptr) : given[i].bytes))
      return false;
  return w->api->parameter_info(kernel, s.parameters, &offset, &bytes) != CUDA_SUCCESS;
}

int32_t launch_step(quern_window* w, const quern_step& s, int64_t slot) {
  CUdeviceptr pointers[QUERN_MOST_PARAMETERS];
  void* values[QUERN_MOST_PARAMETERS];
  for (uint32_t i = 0; i < s.parameters; ++i) {
    auto& p = w->parameters[s.first_parameter + i];
    pointers[i] = address_of(w, p.place, slot);
    values[i] = p.bytes == 0 ? static_cast<void*>(&pointers[i]) : static_cast<void*>(p.raw);
  }
  CUlaunchConfig config{};
  config.gridDimX = s.grid[0];
  config.gridDimY = s.grid[1];
  config.gridDimZ = s.grid[2];
  config.blockDimX = s.block[0];
  config.blockDimY = s.block[1];
  config.blockDimZ = s.block[2];
  config.sharedMemBytes = s.shared_bytes;
  config.hStream = w->stream;
  CUlaunchAttribute together{};
  together.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  together.value.cooperative = 1;
  if (s.cooperative != 0) {
    config.attrs = &together;
    config.numAttrs = 1;
  }
  const auto kernel = w->kernels[static_cast<size_t>(s.kernel)];
  const auto e = w->api->launch(&config, kernel, values, nullptr);
  if (e == CUDA_SUCCESS) return 0;
  return complain(w, "launching kernel %d with grid (%u, %u, %u), block (%u, %u, %u): %s", s.kernel,
                  s.grid[0], s.grid[1], s.grid[2], s.block[0], s.block[1], s.block[2],
                  quern::gpu::name_of(*w->api, e));
}

int32_t perform(quern_window* w, const quern_step& s, int64_t slot) {
  const auto place = [&](uint32_t i) -> const quern_place& {
    return w->parameters[s.first_parameter + i].place;
  };
  switch (s.kind) {
    case QUERN_STEP_LAUNCH:
      return launch_step(w, s, slot);
    case QUERN_STEP_SET:
      return settle(w,
                    w->api->memset_bytes(address_of(w, place(0), slot),
                                         static_cast<unsigned char>(s.byte), s.bytes, w->stream),
                    "cudaMemsetAsync");
    default:
      return settle(w,
                    w->api->copy_within(address_of(w, place(0), slot),
                                        address_of(w, place(1), slot), s.bytes, w->stream),
                    "cudaMemcpyAsync");
  }
}

}  // namespace

extern "C" int32_t quern_window_open(int32_t device, int32_t own_stream, quern_window** out,
                                     char* problem, int32_t room) {
  auto* w = new quern_window;
  w->device = device;
  if (set_up(w, own_stream != 0) < 0) {
    std::snprintf(problem, static_cast<size_t>(room), "%s", w->problem);
    delete w;  // what it holds of the device goes with the process
    return -1;
  }
  *out = w;
  return 0;
}

extern "C" const char* quern_window_problem(const quern_window* w) {
  return w->problem;
}

extern "C" uint64_t quern_window_stream(const quern_window* w) {
  return reinterpret_cast<uint64_t>(w->stream);
}

extern "C" int32_t quern_window_import(quern_window* w, int32_t piece, int32_t fd, uint64_t bytes,
                                       uint64_t hint, uint64_t writable_hint) {
  if (piece < 0 || piece >= QUERN_PIECES)
    return complain(w, "piece %d, the limit is %d", piece, QUERN_PIECES - 1);
  if (quern_window_drop(w, piece) < 0) return -1;
  CUmemGenericAllocationHandle handle = 0;
  if (settle(w,
             w->api->import_handle(&handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
             "importing device memory") < 0)
    return -1;
  const bool read_only = piece == QUERN_INPUTS;
  auto e = quern::gpu::map_allocation(*w->api, w->device, handle, bytes, hint, !read_only,
                                      w->pieces[piece]);
  if (e != CUDA_SUCCESS) {
    (void)w->api->mem_release(handle);
    return settle(w, e, "mapping device memory");
  }
  if (!read_only) return 0;
  e = quern::gpu::map_allocation(*w->api, w->device, handle, bytes, writable_hint, true,
                                 w->writable_inputs);
  // The handle is released once, with the mapping for reading.
  w->writable_inputs.handle = 0;
  return settle(w, e, "mapping device memory");
}

extern "C" uint64_t quern_window_address(const quern_window* w, int32_t piece) {
  return piece < 0 || piece >= QUERN_PIECES ? 0 : w->pieces[piece].address;
}

extern "C" int32_t quern_window_drop(quern_window* w, int32_t piece) {
  if (piece < 0 || piece >= QUERN_PIECES || w->pieces[piece].bytes == 0) return 0;
  if (settle(w, cudaStreamSynchronize(w->stream), "waiting for the device") < 0) return -1;
  if (piece == QUERN_INPUTS) quern::gpu::unmap_allocation(*w->api, w->writable_inputs);
  quern::gpu::unmap_allocation(*w->api, w->pieces[piece]);
  w->slots = 0;
  return 0;
}

extern "C" int32_t quern_window_unload(quern_window* w) {
  w->steps.clear();
  w->parameters.clear();
  w->kernels.clear();
  if (w->module == nullptr) return 0;
  const auto e = w->api->module_unload(w->module);
  w->module = nullptr;
  return settle(w, e, "unloading device code");
}

extern "C" int32_t quern_window_load(quern_window* w, const void* cubin, const char* const* names,
                                     int32_t count) {
  if (quern_window_unload(w) < 0) return -1;
  if (count < 0 || count > QUERN_MOST_KERNELS)
    return complain(w, "%d kernels, the limit is %d", count, QUERN_MOST_KERNELS);
  if (settle(w, w->api->module_load(&w->module, cubin, 0, nullptr, nullptr),
             "loading device code") < 0)
    return -1;
  for (int32_t i = 0; i < count; ++i) {
    CUfunction kernel = nullptr;
    if (const auto e = w->api->module_function(&kernel, w->module, names[i]); e != CUDA_SUCCESS)
      return complain(w, "kernel %s: %s", names[i], quern::gpu::name_of(*w->api, e));
    w->kernels.push_back(kernel);
  }
  return 0;
}

extern "C" int32_t quern_window_program(quern_window* w, const quern_step* steps, int32_t count,
                                        const quern_parameter* parameters,
                                        int32_t parameter_count) {
  if (count < 0 || count > QUERN_MOST_STEPS || parameter_count < 0)
    return complain(w, "%d steps, the limit is %d", count, QUERN_MOST_STEPS);
  for (int32_t i = 0; i < count; ++i) {
    const auto& s = steps[i];
    const uint64_t end = uint64_t{s.first_parameter} + s.parameters;
    if (end > static_cast<uint64_t>(parameter_count) || s.parameters > QUERN_MOST_PARAMETERS)
      return complain(w, "step %d has parameters outside the list", i);
    const uint32_t least = s.kind == QUERN_STEP_LAUNCH ? 0 : s.kind == QUERN_STEP_SET ? 1 : 2;
    if (s.kind < QUERN_STEP_LAUNCH || s.kind > QUERN_STEP_COPY || s.parameters < least)
      return complain(w, "step %d is none that is known", i);
    if (s.kind == QUERN_STEP_LAUNCH &&
        (s.kernel < 0 || static_cast<size_t>(s.kernel) >= w->kernels.size()))
      return complain(w, "step %d launches kernel %d of %zu", i, s.kernel, w->kernels.size());
    for (uint32_t p = s.first_parameter; p < end; ++p) {
      const auto& given = parameters[p];
      if (given.bytes > sizeof given.raw)
        return complain(w, "step %d has a parameter of %u bytes", i, given.bytes);
      if (given.bytes == 0 && !inside(w, given.place, s.kind == QUERN_STEP_LAUNCH ? 0 : s.bytes))
        return complain(w, "step %d has a pointer outside its piece", i);
    }
    if (s.kind == QUERN_STEP_LAUNCH && !parameters_fit(w, s, parameters + s.first_parameter))
      return complain(w, "step %d: the compiled kernel has other parameters than its text", i);
    if (s.kind == QUERN_STEP_LAUNCH && s.shared_bytes > 48 * 1024 &&
        settle(w,
               w->api->function_set(w->kernels[static_cast<size_t>(s.kernel)],
                                    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    static_cast<int>(s.shared_bytes)),
               "dynamic shared memory") < 0)
      return -1;
  }
  w->steps.assign(steps, steps + count);
  w->parameters.assign(parameters, parameters + parameter_count);
  return 0;
}

extern "C" int32_t quern_window_begin(quern_window* w, const quern_window_settings* how) {
  w->how = *how;
  w->calls = 0;
  if (make_flush(w, how->flush_bytes) < 0) return -1;
  // What a kernel asked the cache to keep would outlive the flush.
  if (how->flush_bytes != 0 &&
      settle(w, w->api->reset_persisting(), "resetting the persisting cache") < 0)
    return -1;
  ++w->turn;
  if (how->gate_timeout_ns == 0) return 0;
  wait_at_gate<<<1, 1, 0, w->stream>>>(w->gate_on_device, w->turn, how->gate_timeout_ns);
  return settle(w, cudaGetLastError(), "the gate");
}

extern "C" int32_t quern_window_tensors(quern_window* w, const quern_tensors* what, int32_t slots) {
  if (what->inputs < 0 || what->inputs > QUERN_MOST_TENSORS || what->outputs < 0 ||
      what->outputs > QUERN_MOST_TENSORS || slots < 1)
    return complain(w, "%d inputs, %d outputs, %d slots", what->inputs, what->outputs, slots);
  for (int32_t i = 0; i < what->inputs; ++i)
    if (!inside(w, {QUERN_INPUTS, 0, what->input_offset[i], 0},
                quern::gpu::bytes_of(what->content[i])))
      return complain(w, "input %d lies outside its piece", i);
  for (int32_t o = 0; o < what->outputs; ++o)
    if (what->output_bytes[o] % 4 != 0 ||
        !inside(
            w,
            {QUERN_OUTPUTS, 0,
             what->output_offset[o] + static_cast<uint64_t>(slots - 1) * what->output_stride, 0},
            what->output_bytes[o]))
      return complain(w, "output %d lies outside its piece", o);
  if (!inside(w, {QUERN_WORKSPACE, 0, 0, 0}, what->workspace_bytes) && what->workspace_bytes != 0)
    return complain(w, "the workspace lies outside its piece");
  w->tensors = *what;
  w->slots = slots;
  return 0;
}

extern "C" int32_t quern_window_before_call(quern_window* w, const quern_order* order) {
  const auto& t = w->tensors;
  if (w->calls >= QUERN_MOST_CALLS)
    return complain(w, "more than %d calls in a window", QUERN_MOST_CALLS);
  if (order->slot < 0 || order->slot >= w->slots || order->round < 0 ||
      order->round >= QUERN_MOST_ROUNDS || order->changed_input >= t.inputs)
    return complain(w, "slot %d of %d, round %d, input %d", order->slot, w->slots, order->round,
                    order->changed_input);
  for (int32_t i = 0; i < t.inputs; ++i) {
    quern_content c = t.content[i];
    c.key = order->key + static_cast<uint64_t>(i);
    c.stream = order->stream;
    c.kind = t.kinds[order->round][i];
    const uint64_t at = w->writable_inputs.address + t.input_offset[i];
    if (settle(w, quern::gpu::fill_tensor(w->stream, at, c), "making content") < 0) return -1;
    if (i != order->changed_input) continue;
    if (order->changed_index < 0 || order->changed_index >= c.elements)
      return complain(w, "element %lld of %lld", static_cast<long long>(order->changed_index),
                      static_cast<long long>(c.elements));
    c.stream = order->changed_stream;
    if (settle(w, quern::gpu::fill_element(w->stream, at, c, order->changed_index),
               "making content") < 0)
      return -1;
  }
  for (int32_t o = 0; o < t.outputs; ++o)
    if (settle(w,
               quern::gpu::set_words(w->stream,
                                     w->pieces[QUERN_OUTPUTS].address + t.output_offset[o] +
                                         static_cast<uint64_t>(order->slot) * t.output_stride,
                                     t.output_bytes[o], order->poison),
               "poisoning outputs") < 0)
      return -1;
  if (t.workspace_bytes != 0 &&
      settle(w,
             quern::gpu::set_words(w->stream, w->pieces[QUERN_WORKSPACE].address,
                                   (t.workspace_bytes + 3) / 4 * 4, order->poison),
             "poisoning the workspace") < 0)
    return -1;
  if (w->how.flush_bytes != 0 &&
      settle(w, quern::gpu::read_through(w->stream, w->flush, w->how.flush_bytes, w->sink),
             "flushing the cache") < 0)
    return -1;
  return settle(w, cudaEventRecord(w->before[static_cast<size_t>(w->calls)], w->stream),
                "an event");
}

extern "C" int32_t quern_window_after_call(quern_window* w) {
  const auto at = static_cast<size_t>(w->calls++);
  return settle(w, cudaEventRecord(w->after[at], w->stream), "an event");
}

extern "C" int32_t quern_window_end(quern_window* w, uint32_t* ns, int32_t capacity,
                                    int32_t* count) {
  *w->gate = w->turn;
  if (settle(w, cudaDeviceSynchronize(), "running") < 0) return -1;
  *count = w->calls < capacity ? w->calls : capacity;
  for (int32_t i = 0; i < *count; ++i) {
    float ms = 0;
    if (settle(w,
               cudaEventElapsedTime(&ms, w->before[static_cast<size_t>(i)],
                                    w->after[static_cast<size_t>(i)]),
               "reading an event") < 0)
      return -1;
    ns[i] = static_cast<uint32_t>(ms * 1e6F);
  }
  return 0;
}

extern "C" int32_t quern_window_run(quern_window* w, const quern_window_settings* how,
                                    const quern_order* orders, int32_t count, uint32_t* ns) {
  if (count < 0 || count > QUERN_MOST_CALLS)
    return complain(w, "a window of %d calls, the limit is %d", count, QUERN_MOST_CALLS);
  if (quern_window_begin(w, how) < 0) return -1;
  int32_t result = 0;
  for (int32_t i = 0; i < count && result == 0; ++i) {
    result = quern_window_before_call(w, &orders[i]);
    for (const auto& s : w->steps)
      if (result == 0) result = perform(w, s, orders[i].slot);
    if (result == 0) result = quern_window_after_call(w);
  }
  if (result < 0) {
    // What was queued before must not be left at the gate.
    *w->gate = w->turn;
    return result;
  }
  int32_t got = 0;
  return quern_window_end(w, ns, count, &got);
}
