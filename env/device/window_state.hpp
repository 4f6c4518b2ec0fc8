// What a runner holds of a device: the state behind env/device/window_part.h. Internal to
// libquern_cuda.so.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <vector>

#include <cuda_runtime.h>

#include "env/device/driver.hpp"
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
  std::vector<cudaEvent_t> before, after, beside;
  quern_window_settings settings{};
  int32_t calls = 0;
  int32_t last_beside = 0;  // calls that have an event in `beside`: all up to this number
  uint64_t begun_ns = 0, started_ns = 0;  // by the clock of the process
  quern_window_clocks clocks{};
  mapping regions[QUERN_REGIONS];
  mapping writable_inputs;
  quern_tensors tensors{};
  int32_t slots = 0;
  CUmodule module = nullptr;
  std::vector<CUfunction> kernels;
  std::vector<quern_step> steps;
  std::vector<quern_parameter> parameters;
  char problem[448] = {};
  int32_t cause = QUERN_CAUSE_UNKNOWN;
};

namespace quern::gpu {

inline uint64_t clock_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000ULL + static_cast<uint64_t>(t.tv_nsec);
}

inline int32_t complain(quern_window* w, const char* format, ...) {
  va_list rest;
  va_start(rest, format);
  std::vsnprintf(w->problem, sizeof w->problem, format, rest);
  va_end(rest);
  w->cause = QUERN_CAUSE_UNKNOWN;
  return -1;
}

/// Of an error of the runtime or the driver, whose numbers are the same here.
inline int32_t cause_of(int error) {
  static_assert(static_cast<int>(cudaErrorMemoryAllocation) == CUDA_ERROR_OUT_OF_MEMORY &&
                static_cast<int>(cudaErrorDevicesUnavailable) == CUDA_ERROR_DEVICE_UNAVAILABLE &&
                static_cast<int>(cudaErrorECCUncorrectable) == CUDA_ERROR_ECC_UNCORRECTABLE &&
                static_cast<int>(cudaErrorNvlinkUncorrectable) == CUDA_ERROR_NVLINK_UNCORRECTABLE);
  switch (error) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return QUERN_CAUSE_MEMORY;
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
      return QUERN_CAUSE_HARDWARE;
    default:
      return QUERN_CAUSE_UNKNOWN;
  }
}

inline int32_t settle(quern_window* w, cudaError_t e, const char* what) {
  if (e == cudaSuccess) return 0;
  complain(w, "%s: %s", what, cudaGetErrorName(e));
  w->cause = cause_of(static_cast<int>(e));
  return -1;
}

inline int32_t settle(quern_window* w, CUresult e, const char* what) {
  if (e == CUDA_SUCCESS) return 0;
  complain(w, "%s: %s", what, quern::gpu::name_of(*w->api, e));
  w->cause = cause_of(static_cast<int>(e));
  return -1;
}

inline const mapping& region_of(const quern_window* w, const quern_place& place) {
  return w->regions[place.region];
}

/// Whether `bytes` from the place on lie in its region.
inline bool inside(const quern_window* w, const quern_place& place, uint64_t bytes) {
  if (place.region < 0) return place.offset == 0 && bytes == 0;
  if (place.region >= QUERN_REGIONS) return false;
  const mapping& m = region_of(w, place);
  return m.bytes != 0 && place.offset <= m.bytes && bytes <= m.bytes - place.offset;
}

inline CUdeviceptr address_of(const quern_window* w, const quern_place& place, int64_t slot) {
  if (place.region < 0) return 0;
  return region_of(w, place).address + place.offset + static_cast<uint64_t>(slot) * place.stride;
}

}  // namespace quern::gpu
