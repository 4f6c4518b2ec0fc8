// Part of quern_device.h: the functions that make tensors, operators, and CUDA's streams.
#pragma once

namespace at {

inline namespace quern_slim {

QUERN_SLIM Tensor quern_slim_sized(int how, IntArrayRef sizes, const TensorOptions& options,
                                   const Scalar& value) {
  return Tensor::quern_slim_made(
      [&](void* to) { quern_slim_make(to, how, sizes.data(), sizes.size(), options, value); });
}
QUERN_SLIM Tensor quern_slim_like(int how, const Tensor& like, const TensorOptions& options,
                                  const Scalar& value) {
  return Tensor::quern_slim_made(
      [&](void* to) { quern_slim_make_like(to, how, like, options, value); });
}
QUERN_SLIM Tensor empty(IntArrayRef sizes, const TensorOptions& options = {}) {
  return quern_slim_sized(0, sizes, options, 0);
}
QUERN_SLIM Tensor zeros(IntArrayRef sizes, const TensorOptions& options = {}) {
  return quern_slim_sized(1, sizes, options, 0);
}
QUERN_SLIM Tensor ones(IntArrayRef sizes, const TensorOptions& options = {}) {
  return quern_slim_sized(2, sizes, options, 0);
}
QUERN_SLIM Tensor full(IntArrayRef sizes, const Scalar& value, const TensorOptions& options = {}) {
  return quern_slim_sized(3, sizes, options, value);
}
QUERN_SLIM Tensor empty_like(const Tensor& like, const TensorOptions& options = {}) {
  return quern_slim_like(0, like, options, 0);
}
QUERN_SLIM Tensor zeros_like(const Tensor& like, const TensorOptions& options = {}) {
  return quern_slim_like(1, like, options, 0);
}
QUERN_SLIM Tensor ones_like(const Tensor& like, const TensorOptions& options = {}) {
  return quern_slim_like(2, like, options, 0);
}
QUERN_SLIM Tensor full_like(const Tensor& like, const Scalar& value,
                            const TensorOptions& options = {}) {
  return quern_slim_like(3, like, options, value);
}
QUERN_SLIM Tensor matmul(const Tensor& a, const Tensor& b) {
  return a.matmul(b);
}
QUERN_SLIM Tensor mm(const Tensor& a, const Tensor& b) {
  return a.mm(b);
}
QUERN_SLIM Tensor sum(const Tensor& of) {
  return of.sum();
}
QUERN_SLIM Tensor sum(const Tensor& of, IntArrayRef dims, bool keep = false) {
  return of.sum(dims, keep);
}
QUERN_SLIM Tensor mean(const Tensor& of) {
  return of.mean();
}
QUERN_SLIM Tensor mean(const Tensor& of, IntArrayRef dims, bool keep = false) {
  return of.mean(dims, keep);
}
QUERN_SLIM TensorOptions dtype(ScalarType type) {
  return TensorOptions(type);
}
QUERN_SLIM TensorOptions device(Device on) {
  return TensorOptions(on);
}
QUERN_SLIM TensorOptions device(DeviceType on) {
  return TensorOptions(on);
}

}  // namespace quern_slim

QUERN_SLIM Tensor operator+(const Tensor& a, const Tensor& b) {
  return a.add(b);
}
QUERN_SLIM Tensor operator-(const Tensor& a, const Tensor& b) {
  return a.sub(b);
}
QUERN_SLIM Tensor operator*(const Tensor& a, const Tensor& b) {
  return a.mul(b);
}
QUERN_SLIM Tensor operator/(const Tensor& a, const Tensor& b) {
  return a.div(b);
}
QUERN_SLIM Tensor operator+(const Tensor& a, const Scalar& b) {
  return a.add(b);
}
QUERN_SLIM Tensor operator-(const Tensor& a, const Scalar& b) {
  return a.sub(b);
}
QUERN_SLIM Tensor operator*(const Tensor& a, const Scalar& b) {
  return a.mul(b);
}
QUERN_SLIM Tensor operator/(const Tensor& a, const Scalar& b) {
  return a.div(b);
}
QUERN_SLIM Tensor operator*(const Scalar& a, const Tensor& b) {
  return b.mul(a);
}
QUERN_SLIM Tensor operator+(const Scalar& a, const Tensor& b) {
  return b.add(a);
}

}  // namespace at

#ifdef QUERN_SLIM_STREAMS
namespace c10::cuda {
/// LibTorch's layout and functions: a device and the stream's number.
class CUDAStream {
  c10::Device device_;
  std::int64_t id_;

 public:
  cudaStream_t stream() const;
  QUERN_SLIM_MEMBER operator cudaStream_t() const { return stream(); }
};
CUDAStream getCurrentCUDAStream(DeviceIndex device_index = -1);
}  // namespace c10::cuda
namespace at::cuda {
using c10::cuda::CUDAStream;
using c10::cuda::getCurrentCUDAStream;
}  // namespace at::cuda
#endif

#ifdef QUERN_SLIM_GUARDS
namespace c10::cuda {
inline namespace quern_slim {
struct CUDAGuard {
  QUERN_SLIM_MEMBER explicit CUDAGuard(Device device) : CUDAGuard(device.index()) {}
  QUERN_SLIM_MEMBER explicit CUDAGuard(int device) {
    cudaGetDevice(&before_);
    if (device >= 0 && device != before_) cudaSetDevice(device);
  }
  QUERN_SLIM_MEMBER ~CUDAGuard() { cudaSetDevice(before_); }
  CUDAGuard(const CUDAGuard&) = delete;

 private:
  int before_ = 0;
};
using OptionalCUDAGuard = CUDAGuard;
}  // namespace quern_slim
}  // namespace c10::cuda
namespace at::cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::OptionalCUDAGuard;
}  // namespace at::cuda
#endif

#ifdef QUERN_SLIM_CUDA_CHECKS
#define C10_CUDA_CHECK(call)                                           \
  do {                                                                 \
    const cudaError_t quern_slim_error = (call);                       \
    TORCH_CHECK(quern_slim_error == cudaSuccess,                       \
                "CUDA error: ", cudaGetErrorString(quern_slim_error)); \
  } while (false)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#endif

#ifdef QUERN_SLIM_AT_CUDA
struct cublasContext;
namespace at::cuda {
cublasContext* getCurrentCUDABlasHandle();
}
#define AT_CUDA_CHECK(call) C10_CUDA_CHECK(call)
#endif

namespace torch {
using namespace at;
using std::nullopt;
using std::optional;
using Dtype = at::ScalarType;
constexpr auto kUInt8 = at::kByte, kU8 = at::kByte, kInt8 = at::kChar, kI8 = at::kChar,
               kInt16 = at::kShort, kI16 = at::kShort, kInt32 = at::kInt, kI32 = at::kInt,
               kInt64 = at::kLong, kI64 = at::kLong, kFloat16 = at::kHalf, kF16 = at::kHalf,
               kFloat32 = at::kFloat, kF32 = at::kFloat, kFloat64 = at::kDouble, kF64 = at::kDouble;
}  // namespace torch
namespace c10 {
using std::nullopt;
using std::optional;
}  // namespace c10

#include "quern_dispatch.h"
