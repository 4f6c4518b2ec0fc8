// RMSNorm with the addition before it, and its gradient.
#include <algorithm>

#include "policy/device/common.cuh"
#include "policy/device/functions.hpp"

namespace quern::policy::device {
namespace {

constexpr int norm_threads = 256;
constexpr int widest_norm = 12000;  // floats of a row in shared memory without asking for more

/// Calls f(index, count of elements from there) over a row: packs where `vector`, else single ones.
template <class T, class F>
__device__ void over_row(int width, bool vector, F f) {
  if (vector) {
    for (int i = threadIdx.x * pack<T>::size; i < width; i += blockDim.x * pack<T>::size)
      f(i, true);
  } else {
    for (int i = threadIdx.x; i < width; i += blockDim.x)
      f(i, false);
  }
}

template <class T>
__global__ void __launch_bounds__(norm_threads)
    add_rms_norm_kernel(int width, bool vector, float eps, const T* delta, T* x, const T* w, T* y,
                        float* rstd) {
  extern __shared__ float row_values[];
  __shared__ float sums[32];
  const int64_t start = static_cast<int64_t>(blockIdx.x) * width;
  float squares = 0;
  const auto take = [&](int i, T own, T added) {
    float value = to_float(own);
    if (delta != nullptr) value = to_float(from_float<T>(value + to_float(added)));
    row_values[i] = value;
    squares += value * value;
    return value;
  };
  over_row<T>(width, vector, [&](int i, bool whole) {
    if (whole) {
      pack<T> own = *reinterpret_cast<const pack<T>*>(x + start + i), added{};
      if (delta != nullptr) added = *reinterpret_cast<const pack<T>*>(delta + start + i);
#pragma unroll
      for (int j = 0; j < pack<T>::size; ++j)
        own.at[j] = from_float<T>(take(i + j, own.at[j], added.at[j]));
      if (delta != nullptr) *reinterpret_cast<pack<T>*>(x + start + i) = own;
    } else {
      const float value =
          take(i, x[start + i], delta != nullptr ? delta[start + i] : from_float<T>(0));
      if (delta != nullptr) x[start + i] = from_float<T>(value);
    }
  });
  const float scale = rsqrtf(block_sum(squares, sums) / static_cast<float>(width) + eps);
  if (rstd != nullptr && threadIdx.x == 0) rstd[blockIdx.x] = scale;
  over_row<T>(width, vector, [&](int i, bool whole) {
    if (whole) {
      const pack<T> weight = *reinterpret_cast<const pack<T>*>(w + i);
      pack<T> result;
#pragma unroll
      for (int j = 0; j < pack<T>::size; ++j)
        result.at[j] = from_float<T>(row_values[i + j] * scale * to_float(weight.at[j]));
      *reinterpret_cast<pack<T>*>(y + start + i) = result;
    } else {
      y[start + i] = from_float<T>(row_values[i] * scale * to_float(w[i]));
    }
  });
}

/// Block b takes rows b, b + blocks, ...; its part of dw goes to room[b].
template <class T>
__global__ void __launch_bounds__(norm_threads)
    rms_norm_backward_kernel(int rows, int width, const T* dy, const T* x, const T* w,
                             const float* rstd, T* dx, float* room) {
  extern __shared__ float own_dw[];
  __shared__ float sums[32];
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    own_dw[i] = 0;
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t start = static_cast<int64_t>(row) * width;
    const float scale = rstd[row];
    float dot = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
      const float g = to_float(dy[start + i]), h = to_float(x[start + i]) * scale;
      own_dw[i] += g * h;
      dot += g * to_float(w[i]) * h;
    }
    const float mean = block_sum(dot, sums) / static_cast<float>(width);
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
      const float g = to_float(dy[start + i]) * to_float(w[i]), h = to_float(x[start + i]) * scale;
      dx[start + i] = from_float<T>(to_float(dx[start + i]) + scale * (g - h * mean));
    }
  }
  // Every thread wrote and reads its own columns only.
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    room[static_cast<int64_t>(blockIdx.x) * width + i] = own_dw[i];
}

__global__ void sum_parts_kernel(int parts, int width, const float* room, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= width) return;
  float sum = 0;
  for (int p = 0; p < parts; ++p)
    sum += room[static_cast<int64_t>(p) * width + i];
  out[i] += sum;
}

}  // namespace

int32_t add_parts(int parts, int width, const float* room, float* out, cudaStream_t stream) {
  sum_parts_kernel<<<(width + 127) / 128, 128, 0, stream>>>(parts, width, room, out);
  return launched();
}

int32_t add_rms_norm(int32_t type, int32_t rows, int32_t width, float eps, const void* delta,
                     void* x, const void* w, void* y, float* rstd, void* stream) {
  if (rows < 0 || width < 1 || width > widest_norm) return invalid;
  if (rows == 0) return 0;
  return with_element(type, [&](auto element) {
    using T = decltype(element);
    const auto address = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(w) |
                         reinterpret_cast<uintptr_t>(y) | reinterpret_cast<uintptr_t>(delta);
    const bool vector = width % pack<T>::size == 0 && address % 16 == 0;
    add_rms_norm_kernel<T><<<rows, norm_threads, width * sizeof(float), stream_of(stream)>>>(
        width, vector, eps, static_cast<const T*>(delta), static_cast<T*>(x),
        static_cast<const T*>(w), static_cast<T*>(y), rstd);
    return launched();
  });
}

int32_t rms_norm_backward(int32_t type, int32_t rows, int32_t width, const void* dy, const void* x,
                          const void* w, const float* rstd, void* dx, float* dw, float* room,
                          void* stream) {
  if (rows < 0 || width < 1 || width > widest_norm) return invalid;
  if (rows == 0) return 0;
  const int parts = std::min<int>(rows, quern_partials);
  const int32_t code = with_element(type, [&](auto element) {
    using T = decltype(element);
    rms_norm_backward_kernel<T><<<parts, norm_threads, width * sizeof(float), stream_of(stream)>>>(
        rows, width, static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<const T*>(w),
        rstd, static_cast<T*>(dx), room);
    return launched();
  });
  return code != 0 ? code : add_parts(parts, width, room, dw, stream_of(stream));
}

}  // namespace quern::policy::device
