// RMSNorm with the addition before it, and its gradient.
#include <algorithm>

#include "policy/device/common.cuh"
#include "policy/device/functions.hpp"

namespace quern::policy::device {
namespace {

constexpr int norm_threads = 256;
constexpr int widest_norm = 12000;  // floats of a row in shared memory without asking for more

/// Whether rows of this width at these addresses are whole packs.
template <class T, class... P>
bool in_packs(int width, P... rows) {
  return width % pack<T>::size == 0 && ((reinterpret_cast<uintptr_t>(rows) | ...) % 16) == 0;
}

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

/// A pack of a row from column i on, zeros beyond the row's end: at once where `vector`, else one
/// by one. A thread has the same columns either way, so that its sums have the same bits.
template <class T>
__device__ pack<T> load_pack(const T* row, int i, int width, bool vector) {
  if (vector) return *reinterpret_cast<const pack<T>*>(row + i);
  pack<T> values;
#pragma unroll
  for (int j = 0; j < pack<T>::size; ++j)
    values.at[j] = i + j < width ? row[i + j] : from_float<T>(0);
  return values;
}

template <class T>
__device__ void store_pack(const pack<T>& values, T* row, int i, int width, bool vector) {
  if (vector) {
    *reinterpret_cast<pack<T>*>(row + i) = values;
    return;
  }
#pragma unroll
  for (int j = 0; j < pack<T>::size; ++j)
    if (i + j < width) row[i + j] = values.at[j];
}

/// float32 beside a pack.
template <class T>
struct alignas(16) wide_pack {
  float at[pack<T>::size];
};

/// Floats that the packs of a row have in shared memory.
template <class T>
__host__ __device__ int whole_packs(int width) {
  return (width + pack<T>::size - 1) / pack<T>::size * pack<T>::size;
}

/// Block b takes rows b, b + blocks, ...; its part of dw goes to room[b].
template <class T>
__global__ void __launch_bounds__(norm_threads)
    rms_norm_backward_kernel(int rows, int width, bool vector, const T* dy, const T* x, const T* w,
                             const float* rstd, T* dx, float* room) {
  extern __shared__ __align__(16) float own_dw[];
  __shared__ float sums[32];
  constexpr int step = pack<T>::size;
  const int first = threadIdx.x * step, stride = norm_threads * step;
  for (int i = threadIdx.x; i < whole_packs<T>(width); i += norm_threads)
    own_dw[i] = 0;
  __syncthreads();
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t start = static_cast<int64_t>(row) * width;
    const float scale = rstd[row];
    float dot = 0;
    for (int i = first; i < width; i += stride) {
      const pack<T> given = load_pack(dy + start, i, width, vector),
                    value = load_pack(x + start, i, width, vector),
                    weight = load_pack(w, i, width, vector);
      auto* own = reinterpret_cast<wide_pack<T>*>(own_dw + i);
      wide_pack<T> dw = *own;
#pragma unroll
      for (int j = 0; j < step; ++j) {
        const float g = to_float(given.at[j]), h = to_float(value.at[j]) * scale;
        dw.at[j] += g * h;
        dot += g * to_float(weight.at[j]) * h;
      }
      *own = dw;
    }
    const float mean = block_sum(dot, sums) / static_cast<float>(width);
    for (int i = first; i < width; i += stride) {
      const pack<T> given = load_pack(dy + start, i, width, vector),
                    value = load_pack(x + start, i, width, vector),
                    weight = load_pack(w, i, width, vector);
      pack<T> sum = load_pack(dx + start, i, width, vector);
#pragma unroll
      for (int j = 0; j < step; ++j) {
        const float g = to_float(given.at[j]) * to_float(weight.at[j]),
                    h = to_float(value.at[j]) * scale;
        sum.at[j] = from_float<T>(to_float(sum.at[j]) + scale * (g - h * mean));
      }
      store_pack(sum, dx + start, i, width, vector);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < width; i += norm_threads)
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
    const bool vector = in_packs<T>(width, x, w, y, delta);
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
    rms_norm_backward_kernel<T>
        <<<parts, norm_threads, whole_packs<T>(width) * sizeof(float), stream_of(stream)>>>(
            rows, width, in_packs<T>(width, dy, x, w, dx), static_cast<const T*>(dy),
            static_cast<const T*>(x), static_cast<const T*>(w), rstd, static_cast<T*>(dx), room);
    return launched();
  });
  return code != 0 ? code : add_parts(parts, width, room, dw, stream_of(stream));
}

}  // namespace quern::policy::device
