// The runners' side of a device: what they hold of it before anything runs.
#include <cstring>

#include "env/device/window_state.hpp"

using quern::gpu::complain;
using quern::gpu::inside;
using quern::gpu::settle;

namespace {

/// Bytes that the default memory pool of the device keeps for this process when the device is
/// waited for: a scratch array of any task of the suites, below what counts as a large process.
constexpr uint64_t kept_pool_bytes = uint64_t{512} << 20;

/// Every window ends with a wait for the device, and a pool gives what it holds back to the driver
/// there. A candidate that allocates on its stream would have memory mapped in the first call of
/// every window: a request to the driver, which waits for contexts that other processes make, also
/// on other devices, while the device stands idle between two events. A device without pools needs
/// no setting.
int32_t keep_pool_memory(quern_window* w) {
  int has_pools = 0;
  if (settle(w, cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, w->device),
             "whether there are memory pools") < 0)
    return -1;
  if (has_pools == 0) return 0;
  cudaMemPool_t pool = nullptr;
  if (settle(w, cudaDeviceGetDefaultMemPool(&pool, w->device), "the memory pool") < 0) return -1;
  uint64_t bytes = kept_pool_bytes;
  return settle(w, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes),
                "memory that the pool keeps");
}

int32_t set_up(quern_window* w, bool own_stream) {
  if (settle(w, cudaSetDevice(w->device), "taking the device") < 0) return -1;
  const char* missing = nullptr;
  w->api = quern::gpu::find_driver(&missing);
  if (w->api == nullptr)
    return complain(w, "the driver has no %s: it is too old for this build", missing);
  // One that waits for the default stream, and the default stream for it: a candidate that forgets
  // the stream it is given is in order, and timed.
  if (own_stream && settle(w, cudaStreamCreate(&w->stream), "a stream") < 0) return -1;
  if (own_stream && keep_pool_memory(w) < 0) return -1;
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
  w->beside.resize(QUERN_MOST_CALLS);
  for (auto* list : {&w->before, &w->after, &w->beside})
    for (auto& event : *list)
      if (settle(w, cudaEventCreate(&event), "an event") < 0) return -1;
  return 0;
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

}  // namespace

extern "C" int32_t quern_window_driver(char* problem, int32_t room) {
  int count = 0;
  const auto e = cudaGetDeviceCount(&count);
  if (e == cudaSuccess) return 0;
  std::snprintf(problem, static_cast<size_t>(room), "starting the driver: %s", cudaGetErrorName(e));
  return -1;
}

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

extern "C" int32_t quern_window_cause(const quern_window* w) {
  return w->cause;
}

extern "C" uint64_t quern_window_stream(const quern_window* w) {
  return reinterpret_cast<uint64_t>(w->stream);
}

namespace {

/// Takes the allocation behind `fd` in the place of what the region was.
int32_t take_region(quern_window* w, int32_t region, int32_t fd,
                    CUmemGenericAllocationHandle* handle) {
  if (region < 0 || region >= QUERN_REGIONS)
    return complain(w, "region %d, the limit is %d", region, QUERN_REGIONS - 1);
  if (quern_window_drop(w, region) < 0) return -1;
  return settle(w,
                w->api->import_handle(handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                "importing device memory");
}

int32_t map_region(quern_window* w, int32_t region, CUmemGenericAllocationHandle handle,
                   uint64_t bytes, uint64_t hint, bool writable) {
  const auto e = quern::gpu::map_allocation(*w->api, w->device, handle, bytes, hint, writable,
                                            w->regions[region]);
  if (e != CUDA_SUCCESS) (void)w->api->mem_release(handle);
  return settle(w, e, "mapping device memory");
}

}  // namespace

extern "C" int32_t quern_window_import(quern_window* w, int32_t region, int32_t fd, uint64_t bytes,
                                       uint64_t hint, uint64_t writable_hint) {
  CUmemGenericAllocationHandle handle = 0;
  if (take_region(w, region, fd, &handle) < 0) return -1;
  const bool read_only = region == QUERN_INPUTS && (hint == 0 || hint != writable_hint);
  if (map_region(w, region, handle, bytes, hint, !read_only) < 0) return -1;
  if (region == QUERN_INPUTS) w->writable_inputs = w->regions[region];
  if (!read_only) return 0;
  const auto e = quern::gpu::map_allocation(*w->api, w->device, handle, bytes, writable_hint, true,
                                            w->writable_inputs);
  // The handle is released once, with the mapping for reading.
  w->writable_inputs.handle = 0;
  return settle(w, e, "mapping device memory");
}

extern "C" int32_t quern_window_import_to_read(quern_window* w, int32_t region, int32_t fd,
                                               uint64_t bytes, uint64_t hint) {
  CUmemGenericAllocationHandle handle = 0;
  if (take_region(w, region, fd, &handle) < 0) return -1;
  if (map_region(w, region, handle, bytes, hint, false) < 0) return -1;
  // There is no other mapping, which quern_window_drop would take down.
  if (region == QUERN_INPUTS) w->writable_inputs = w->regions[region];
  return 0;
}

extern "C" uint64_t quern_window_address(const quern_window* w, int32_t region) {
  return region < 0 || region >= QUERN_REGIONS ? 0 : w->regions[region].address;
}

extern "C" int32_t quern_window_drop(quern_window* w, int32_t region) {
  if (region < 0 || region >= QUERN_REGIONS || w->regions[region].bytes == 0) return 0;
  if (settle(w, cudaStreamSynchronize(w->stream), "waiting for the device") < 0) return -1;
  if (region == QUERN_INPUTS && w->writable_inputs.address != w->regions[region].address)
    (void)quern::gpu::unmap_allocation(*w->api, w->writable_inputs);
  (void)quern::gpu::unmap_allocation(*w->api, w->regions[region]);
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
        return complain(w, "step %d has a pointer outside its region", i);
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
