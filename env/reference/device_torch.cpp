// LibTorch on a CUDA device.
#include "env/reference/device_torch.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include "env/reference/script.hpp"
#include "env/verdict/baseline.hpp"

namespace quern::env {
namespace {

c10::Device cuda_device(int device) {
  return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device)};
}

const c10::impl::DeviceGuardImplInterface& cuda_runtime() {
  return *c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
}

/// The one place where it is set how references are computed on a device; env/verdict/baseline.hpp
/// states what.
void state_settings() {
  auto& context = at::globalContext();
  // f32 means f32 on both sides: with TF32 the reference would be faster than its tolerance allows
  // a candidate to be.
  context.setAllowTF32CuBLAS(stated_settings.tf32);
  context.setAllowTF32CuDNN(stated_settings.tf32);
  // cuDNN chooses by its heuristics, as in every program that changes nothing. Trying all of its
  // algorithms first would time them inside of windows and choose anew in every process;
  // insisting on deterministic ones would make the thing to beat slower than what people run, and
  // what order of sums can change is far inside the tolerances.
  context.setBenchmarkCuDNN(stated_settings.cudnn_benchmark);
  // cuDNN's attention compiles plans while it runs, which a sandbox without a compiler refuses, and
  // takes tens of milliseconds of the host for it: flash attention is what people get otherwise.
  context.setSDPUseCuDNN(stated_settings.cudnn_attention);
  context.setDeterministicCuDNN(stated_settings.deterministic);
  context.setDeterministicAlgorithms(stated_settings.deterministic, false);
  run_operators_as_written();
  at::set_num_threads(1);
}

void warm_up(c10::Device device) {
  const auto options = at::TensorOptions().device(device);
  const auto x = at::ones({64, 64}, options);
  const auto half = at::ones({64, 64}, options.dtype(c10::ScalarType::BFloat16));
  at::matmul(half, half);
  at::softmax(at::matmul(x, x), -1);
  at::conv2d(x.view({1, 1, 64, 64}), at::ones({1, 1, 3, 3}, options));
}

}  // namespace

base::status prepare_libtorch_on(int device) {
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return base::fail(base::errc::unavailable, "LibTorch's CUDA part cannot be loaded: {}",
                      dlerror());
  try {
    if (!at::hasCUDA() || device < 0 || device >= cuda_runtime().deviceCount())
      return base::fail(base::errc::unavailable, "LibTorch sees no CUDA device {} (it sees {})",
                        device, at::hasCUDA() ? cuda_runtime().deviceCount() : 0);
    state_settings();
    cuda_runtime().setDevice(cuda_device(device));
    warm_up(cuda_device(device));
  } catch (const std::exception& e) {
    return base::fail(base::errc::unavailable, "LibTorch on device {}: {}", device, message_of(e));
  }
  return wait_for_device(device);
}

base::status wait_for_device(int device) {
  try {
    cuda_runtime().synchronizeDevice(static_cast<c10::DeviceIndex>(device));
    return {};
  } catch (const std::exception& e) {
    return base::fail(base::errc::unavailable, "{}", message_of(e));
  }
}

std::int64_t memory_of_device(int device) {
  try {
    auto* allocator = c10::getDeviceAllocator(c10::DeviceType::CUDA);
    const auto [free, all] = allocator->getMemoryInfo(static_cast<c10::DeviceIndex>(device));
    return static_cast<std::int64_t>(all);
  } catch (const std::exception&) {
    return 0;
  }
}

void trim_device_memory(int device, std::int64_t keep_bytes) {
  try {
    auto* allocator = c10::getDeviceAllocator(c10::DeviceType::CUDA);
    const auto held = allocator->getDeviceStats(static_cast<c10::DeviceIndex>(device));
    if (held.reserved_bytes[0].current > keep_bytes) allocator->emptyCache();
  } catch (const std::exception&) {
    // A device that is lost has nothing to give back; who waits for it is told.
  }
}

}  // namespace quern::env
