// The driver's functions that the CUDA part calls, looked up at run time: nothing links libcuda, so
// that a machine without a stub of it can build. Internal to libquern_cuda.so.
#pragma once

#include <cstdint>

#include <cuda.h>

namespace quern::gpu {

struct driver {
  decltype(&::cuMemCreate) mem_create;
  decltype(&::cuMemRelease) mem_release;
  decltype(&::cuMemAddressReserve) address_reserve;
  decltype(&::cuMemAddressFree) address_free;
  decltype(&::cuMemMap) mem_map;
  decltype(&::cuMemUnmap) mem_unmap;
  decltype(&::cuMemSetAccess) set_access;
  decltype(&::cuMemExportToShareableHandle) export_handle;
  decltype(&::cuMemImportFromShareableHandle) import_handle;
  decltype(&::cuMemGetAllocationGranularity) granularity;
  decltype(&::cuModuleLoadDataEx) module_load;
  decltype(&::cuModuleUnload) module_unload;
  decltype(&::cuModuleGetFunction) module_function;
  decltype(&::cuFuncSetAttribute) function_set;
  decltype(&::cuFuncGetParamInfo) parameter_info;
  decltype(&::cuLaunchKernelEx) launch;
  decltype(&::cuMemsetD8Async) memset_bytes;
  decltype(&::cuMemcpyDtoDAsync) copy_within;
  decltype(&::cuCtxResetPersistingL2Cache) reset_persisting;
  decltype(&::cuGetErrorName) error_name;
};

/// Looked up once; null where the driver is too old, with the missing function's name in `missing`.
const driver* find_driver(const char** missing);

/// "CUDA_ERROR_ILLEGAL_ADDRESS"; never null.
const char* name_of(const driver& d, CUresult result);

/// Device memory of another owner, mapped into this process.
struct mapping {
  CUdeviceptr address = 0;
  std::uint64_t bytes = 0;
  CUmemGenericAllocationHandle handle = 0;
};

/// Maps an allocation, where the driver allows it at address `hint`. On failure nothing is left
/// behind, but the handle stays the caller's.
CUresult map_allocation(const driver& d, int device, CUmemGenericAllocationHandle handle,
                        std::uint64_t bytes, std::uint64_t hint, bool writable, mapping& out);
/// Unmaps, and releases the handle unless it is 0; the first error, behind which the rest is done
/// nevertheless.
CUresult unmap_allocation(const driver& d, mapping& m);

}  // namespace quern::gpu
