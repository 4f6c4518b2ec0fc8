// As much of CUDA's driver interface as the tests of the GPU's sandbox need, taken from
// libcuda.so.1 by name, so that they compile and start where there is no CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include <dlfcn.h>

namespace quern::test {

// Layouts of cuda.h, which have not changed since the functions exist.
struct cuda_location {
  int type = 1;  // a device
  int id = 0;
};
struct cuda_memory_properties {
  int type = 1;     // pinned
  int handles = 1;  // exported as a file descriptor
  cuda_location location;
  void* unused_metadata = nullptr;
  unsigned char flags[8] = {};
};
static_assert(sizeof(cuda_memory_properties) == 32);
struct cuda_access {
  cuda_location location;
  int flags = 3;  // reading and writing
};

inline constexpr std::size_t shared_words = 1024;

/// Word i of the memory that the parent shares, and what the child leaves there instead.
constexpr std::uint32_t shared_before(std::uint32_t i) {
  return i * 2654435761U + 7U;
}
constexpr std::uint32_t shared_after(std::uint32_t i) {
  return shared_before(i) * 3U;
}

/// Multiplies n words by three. Compiled by the driver when it is loaded.
inline constexpr const char* triple_ptx = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry triple(.param .u64 words, .param .u32 count) {
  .reg .pred %p;
  .reg .b32 %r<6>;
  .reg .b64 %a<4>;
  ld.param.u64 %a1, [words];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4;
  setp.ge.u32 %p, %r2, %r1;
  @%p bra DONE;
  cvta.to.global.u64 %a1, %a1;
  mul.wide.u32 %a2, %r2, 4;
  add.u64 %a3, %a1, %a2;
  ld.global.u32 %r5, [%a3];
  mul.lo.u32 %r5, %r5, 3;
  st.global.u32 [%a3], %r5;
DONE:
  ret;
}
)";

/// libcuda.so.1. Functions return 0 or an error number.
struct cuda_driver {
  using pointer = unsigned long long;  ///< device address

  void* library = nullptr;
  int (*init)(unsigned) = nullptr;
  int (*version)(int*) = nullptr;
  int (*count)(int*) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*name)(char*, int, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*allocate)(pointer*, std::size_t) = nullptr;
  int (*release)(pointer) = nullptr;
  int (*to_device)(pointer, const void*, std::size_t) = nullptr;
  int (*to_host)(void*, pointer, std::size_t) = nullptr;
  int (*load)(void**, const void*) = nullptr;
  int (*function)(void**, void*, const char*) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                void**, void**) = nullptr;
  int (*synchronize)() = nullptr;
  int (*make_stream)(void**, unsigned) = nullptr;
  int (*make_event)(void**, unsigned) = nullptr;
  int (*record)(void*, void*) = nullptr;
  int (*wait_event)(void*) = nullptr;
  int (*allocate_host)(void**, std::size_t, unsigned) = nullptr;
  int (*allocate_managed)(pointer*, std::size_t, unsigned) = nullptr;
  int (*allocate_async)(pointer*, std::size_t, void*) = nullptr;
  int (*granularity)(std::size_t*, const cuda_memory_properties*, int) = nullptr;
  int (*create)(unsigned long long*, std::size_t, const cuda_memory_properties*,
                unsigned long long) = nullptr;
  int (*export_handle)(void*, unsigned long long, int, unsigned long long) = nullptr;
  int (*import_handle)(unsigned long long*, void*, int) = nullptr;
  int (*reserve)(pointer*, std::size_t, std::size_t, pointer, unsigned long long) = nullptr;
  int (*map)(pointer, std::size_t, std::size_t, unsigned long long, unsigned long long) = nullptr;
  int (*set_access)(pointer, std::size_t, const cuda_access*, std::size_t) = nullptr;
  int (*error_text)(int, const char**) = nullptr;

  /// Empty, or what went wrong.
  std::string open() {
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
    std::string missing;
    const auto get = [&](auto& to, const char* symbol) {
      to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(dlsym(library, symbol));
      if (to == nullptr) missing += std::string(" ") + symbol;
    };
    get(init, "cuInit");
    get(version, "cuDriverGetVersion");
    get(count, "cuDeviceGetCount");
    get(device, "cuDeviceGet");
    get(name, "cuDeviceGetName");
    get(retain, "cuDevicePrimaryCtxRetain");
    get(set_current, "cuCtxSetCurrent");
    get(allocate, "cuMemAlloc_v2");
    get(release, "cuMemFree_v2");
    get(to_device, "cuMemcpyHtoD_v2");
    get(to_host, "cuMemcpyDtoH_v2");
    get(load, "cuModuleLoadData");
    get(function, "cuModuleGetFunction");
    get(launch, "cuLaunchKernel");
    get(synchronize, "cuCtxSynchronize");
    get(make_stream, "cuStreamCreate");
    get(make_event, "cuEventCreate");
    get(record, "cuEventRecord");
    get(wait_event, "cuEventSynchronize");
    get(allocate_host, "cuMemHostAlloc");
    get(allocate_managed, "cuMemAllocManaged");
    get(allocate_async, "cuMemAllocAsync");
    get(granularity, "cuMemGetAllocationGranularity");
    get(create, "cuMemCreate");
    get(export_handle, "cuMemExportToShareableHandle");
    get(import_handle, "cuMemImportFromShareableHandle");
    get(reserve, "cuMemAddressReserve");
    get(map, "cuMemMap");
    get(set_access, "cuMemSetAccess");
    get(error_text, "cuGetErrorString");
    return missing.empty() ? "" : "libcuda.so.1 lacks" + missing;
  }

  [[nodiscard]] std::string text(int error) const {
    const char* words = nullptr;
    if (error_text != nullptr) error_text(error, &words);
    return "error " + std::to_string(error) + " (" + (words != nullptr ? words : "?") + ")";
  }
};

/// Device memory that can be handed to another process.
struct shared_memory {
  cuda_driver::pointer at = 0;
  std::size_t bytes = 0;

  /// Maps `handle` (made by this process or imported) for device 0. 0 or an error number.
  int map(const cuda_driver& cuda, unsigned long long handle, std::size_t size) {
    bytes = size;
    if (const int e = cuda.reserve(&at, size, 0, 0, 0); e != 0) return e;
    if (const int e = cuda.map(at, size, 0, handle, 0); e != 0) return e;
    const cuda_access access;
    return cuda.set_access(at, size, &access, 1);
  }
};

}  // namespace quern::test
