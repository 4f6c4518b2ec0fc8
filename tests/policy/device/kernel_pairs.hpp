// Runs a kernel of the scalar table on the host and its twin on the GPU with equal inputs, and says
// how far the results are apart.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "policy/device/library.hpp"
#include "support/gpu.hpp"

namespace quern::test {

/// Inputs and outputs of one run on one side.
class kernel_side {
 public:
  kernel_side(const quern_policy_kernels& table, at::Device device)
      : kernels(table), device_(device) {}

  const quern_policy_kernels& kernels;

  /// Normal numbers, equal on both sides for equal seeds (rounded to `type`).
  at::Tensor numbers(at::IntArrayRef shape, at::ScalarType type, std::uint64_t seed) const {
    auto generator = at::detail::createCPUGenerator(seed);
    return at::randn(shape, generator, at::kFloat).to(type).to(device_);
  }
  at::Tensor zeros(at::IntArrayRef shape, at::ScalarType type) const {
    return at::zeros(shape, at::TensorOptions().dtype(type).device(device_));
  }
  at::Tensor integers(const std::vector<std::int32_t>& values) const {
    return at::tensor(values, at::kInt).to(device_);
  }
  at::Tensor longs(const std::vector<std::int64_t>& values) const {
    return at::tensor(values, at::kLong).to(device_);
  }
  at::Tensor floats(const std::vector<float>& values) const {
    return at::tensor(values, at::kFloat).to(device_);
  }

 private:
  at::Device device_;
};

using kernel_run = std::function<std::vector<at::Tensor>(const kernel_side&)>;

inline std::int32_t element_of(at::ScalarType type) {
  return type == at::kBFloat16 ? quern_bf16 : quern_f32;
}

/// Largest |a - b| relative to |a| and the mean size of a: an element near 0 is judged by its
/// neighbours. Infinite where one side has what is no number.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kCPU, at::kDouble), y = b.to(at::kCPU, at::kDouble);
  if (x.numel() == 0) return 0;
  if (!at::isfinite(y).all().item<bool>()) return std::numeric_limits<double>::infinity();
  const at::Tensor size = x.abs() + x.abs().mean() + 1e-30;
  return ((x - y).abs() / size).max().item<double>();
}

/// The largest distance over all outputs of a run.
inline double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, distance(a[i], b[i]));
  return worst;
}

inline std::vector<at::Tensor> run_on_host(const kernel_run& run) {
  return run(kernel_side(policy::host_policy_kernels(), at::kCPU));
}
/// Waits for the device, so that an error of the kernel is thrown here.
inline std::vector<at::Tensor> run_on_gpu(const kernel_run& run) {
  auto results = run(kernel_side(**policy::cuda_policy_kernels(), at::kCUDA));
  for (at::Tensor& t : results)
    t = t.to(at::kCPU);
  return results;
}

/// Whether there are a GPU and the kernels for it; else the test is skipped with the reason.
bool go_on_with_kernels();

/// Prints and checks one comparison, and that the control, a run with something wrong, is told
/// apart.
void compare(const std::string& what, double tolerance, const kernel_run& run,
             const kernel_run& wrong);
void succeed(const kernel_side& side, std::int32_t code);

inline double tolerance_of(at::ScalarType type) {
  return type == at::kFloat ? 2e-5 : 1.2e-2;
}
std::string name_of(const char* kernel, at::ScalarType type, std::initializer_list<long> sizes);

/// The same values, so many elements behind an address that loads of 16 bytes can start at.
inline at::Tensor moved(const at::Tensor& x, std::int64_t elements) {
  const at::Tensor room = at::empty({x.numel() + elements}, x.options());
  at::Tensor view = room.narrow(0, elements, x.numel()).view(x.sizes());
  view.copy_(x);
  return view;
}

/// Null for an undefined tensor.
inline float* floats_of(const at::Tensor& t) {
  return t.defined() ? t.mutable_data_ptr<float>() : nullptr;
}
inline std::int32_t* words_of(const at::Tensor& t) {
  return t.defined() ? t.mutable_data_ptr<std::int32_t>() : nullptr;
}
inline void* data_of(const at::Tensor& t) {
  return t.defined() ? t.mutable_data_ptr() : nullptr;
}

}  // namespace quern::test
