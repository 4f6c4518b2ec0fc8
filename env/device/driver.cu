// The driver's functions that the CUDA part calls.
#include <cuda_runtime.h>

#include "env/device/driver.hpp"

namespace quern::gpu {
namespace {

template <class F>
bool find(F& to, const char* name, const char** missing) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how{};
  // 12.4 of each function: older than every driver that runs this build, as young as the youngest
  // interface that it uses.
  if (cudaGetDriverEntryPointByVersion(name, &found, 12040, cudaEnableDefault, &how) !=
          cudaSuccess ||
      how != cudaDriverEntryPointSuccess) {
    *missing = name;
    (void)cudaGetLastError();
    return false;
  }
  to = reinterpret_cast<F>(found);
  return true;
}

bool fill(driver& d, const char** missing) {
  return find(d.mem_create, "cuMemCreate", missing) &&
         find(d.mem_release, "cuMemRelease", missing) &&
         find(d.address_reserve, "cuMemAddressReserve", missing) &&
         find(d.address_free, "cuMemAddressFree", missing) &&
         find(d.mem_map, "cuMemMap", missing) && find(d.mem_unmap, "cuMemUnmap", missing) &&
         find(d.set_access, "cuMemSetAccess", missing) &&
         find(d.export_handle, "cuMemExportToShareableHandle", missing) &&
         find(d.import_handle, "cuMemImportFromShareableHandle", missing) &&
         find(d.granularity, "cuMemGetAllocationGranularity", missing) &&
         find(d.module_load, "cuModuleLoadDataEx", missing) &&
         find(d.module_unload, "cuModuleUnload", missing) &&
         find(d.module_function, "cuModuleGetFunction", missing) &&
         find(d.function_set, "cuFuncSetAttribute", missing) &&
         find(d.parameter_info, "cuFuncGetParamInfo", missing) &&
         find(d.launch, "cuLaunchKernelEx", missing) &&
         find(d.memset_bytes, "cuMemsetD8Async", missing) &&
         find(d.copy_within, "cuMemcpyDtoDAsync", missing) &&
         find(d.reset_persisting, "cuCtxResetPersistingL2Cache", missing) &&
         find(d.error_name, "cuGetErrorName", missing);
}

}  // namespace

const driver* find_driver(const char** missing) {
  static const char* lacking = nullptr;
  static driver found{};
  static const bool complete = fill(found, &lacking);
  *missing = lacking;
  return complete ? &found : nullptr;
}

const char* name_of(const driver& d, CUresult result) {
  const char* name = nullptr;
  if (d.error_name(result, &name) != CUDA_SUCCESS || name == nullptr) return "an unknown error";
  return name;
}

CUresult map_allocation(const driver& d, int device, CUmemGenericAllocationHandle handle,
                        std::uint64_t bytes, std::uint64_t hint, bool writable, mapping& out) {
  CUdeviceptr address = 0;
  if (const auto e = d.address_reserve(&address, bytes, 0, hint, 0); e != CUDA_SUCCESS) return e;
  if (const auto e = d.mem_map(address, bytes, 0, handle, 0); e != CUDA_SUCCESS) {
    (void)d.address_free(address, bytes);
    return e;
  }
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
  if (const auto e = d.set_access(address, bytes, &access, 1); e != CUDA_SUCCESS) {
    (void)d.mem_unmap(address, bytes);
    (void)d.address_free(address, bytes);
    return e;
  }
  out = {address, bytes, handle};
  return CUDA_SUCCESS;
}

CUresult unmap_allocation(const driver& d, mapping& m) {
  if (m.bytes == 0) return CUDA_SUCCESS;
  const CUresult results[] = {d.mem_unmap(m.address, m.bytes), d.address_free(m.address, m.bytes),
                              m.handle != 0 ? d.mem_release(m.handle) : CUDA_SUCCESS};
  m = {};
  for (const CUresult e : results)
    if (e != CUDA_SUCCESS) return e;
  return CUDA_SUCCESS;
}

}  // namespace quern::gpu
