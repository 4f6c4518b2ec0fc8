// Products of a few rows with a matrix: what decoding a few sequences consists of. Every weight is
// read once and used for a handful of numbers, so that all there is to it is to keep the memory
// busy: a warp takes two rows of the matrix, 16 bytes a lane, and where these are too few to fill
// the device, four warps share them.
#include "policy/device/common.cuh"
#include "policy/device/functions.hpp"

namespace quern::policy::device {
namespace {

constexpr int few_warps = 4;
constexpr int few_threads = 32 * few_warps;
constexpr int sums_a_group = 2;
/// Warps that keep an H100 or H200 busy, some 30 a multiprocessor.
constexpr int64_t enough_warps = 4096;

template <class T>
struct few_arguments {
  int32_t columns, width;
  const T *x, *w, *bias;
  T* y;
};

template <class T>
__device__ pack<T> load_pack(const T* p) {
  const uint4 words = __ldg(reinterpret_cast<const uint4*>(p));
  return *reinterpret_cast<const pack<T>*>(&words);
}

/// Of two rows of the matrix with every row of x, by one lane.
template <class T, int rows>
__device__ void lane_sums(const few_arguments<T>& a, int64_t first, int64_t second, int from,
                          int step, float (&sums)[rows][sums_a_group]) {
  constexpr int size = pack<T>::size;
  const T *w0 = a.w + first * a.width, *w1 = a.w + second * a.width;
  const int packs = a.width / size;
#pragma unroll 4
  for (int p = from; p < packs; p += step) {
    const pack<T> both[sums_a_group] = {load_pack(w0 + p * size), load_pack(w1 + p * size)};
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const pack<T> x = load_pack(a.x + static_cast<int64_t>(r) * a.width + p * size);
#pragma unroll
      for (int j = 0; j < size; ++j)
#pragma unroll
        for (int i = 0; i < sums_a_group; ++i)
          sums[r][i] += to_float(x.at[j]) * to_float(both[i].at[j]);
    }
  }
}

template <class T>
__device__ float silu(T gate) {
  const float g = to_float(gate);
  return g * (1.0F / (1.0F + __expf(-g)));
}

/// `gated`: a group's two rows of the matrix are a gate and what it is for, `columns` apart; else
/// neighbours. `parts` warps share a group.
template <class T, int rows, bool gated, int parts>
__global__ void __launch_bounds__(few_threads) few_rows_kernel(few_arguments<T> a) {
  __shared__ float shared[few_warps][rows][sums_a_group];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int part = warp % parts;
  const int64_t group = static_cast<int64_t>(blockIdx.x) * (few_warps / parts) + warp / parts;
  const int64_t first = gated ? group : group * sums_a_group, last = a.columns - 1;
  const int64_t w0 = min(first, last), w1 = gated ? w0 + a.columns : min(first + 1, last);
  float sums[rows][sums_a_group] = {};
  lane_sums<T, rows>(a, w0, w1, part * 32 + lane, parts * 32, sums);
#pragma unroll
  for (int r = 0; r < rows; ++r)
#pragma unroll
    for (int i = 0; i < sums_a_group; ++i) {
      sums[r][i] = warp_sum(sums[r][i]);
      if (parts > 1 && lane == 0) shared[warp][r][i] = sums[r][i];
    }
  if constexpr (parts > 1) {
    __syncthreads();
    if (part != 0) return;
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int i = 0; i < sums_a_group; ++i)
#pragma unroll
        for (int p = 1; p < parts; ++p)
          sums[r][i] += shared[warp + p][r][i];
  }
  if (lane != 0 || first > last) return;
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    T* y = a.y + static_cast<int64_t>(r) * a.columns + first;
    if constexpr (gated) {
      // Rounded as two products and swiglu would.
      *y = from_float<T>(silu(from_float<T>(sums[r][0])) * to_float(from_float<T>(sums[r][1])));
    } else {
#pragma unroll
      for (int i = 0; i < sums_a_group; ++i)
        if (first + i <= last)
          y[i] =
              from_float<T>(sums[r][i] + (a.bias != nullptr ? to_float(a.bias[first + i]) : 0.0F));
    }
  }
}

template <class T, int rows, bool gated>
int32_t start_few_rows(const few_arguments<T>& a, cudaStream_t stream) {
  const int64_t groups =
      gated ? a.columns : (static_cast<int64_t>(a.columns) + sums_a_group - 1) / sums_a_group;
  if (groups >= enough_warps)
    few_rows_kernel<T, rows, gated, 1>
        <<<static_cast<int>((groups + few_warps - 1) / few_warps), few_threads, 0, stream>>>(a);
  else
    few_rows_kernel<T, rows, gated, few_warps>
        <<<static_cast<int>(groups), few_threads, 0, stream>>>(a);
  return launched();
}

template <bool gated>
int32_t few_rows(int32_t type, int32_t rows, int32_t columns, int32_t width, const void* x,
                 const void* w, const void* bias, void* y, void* stream) {
  if (rows < 0 || rows > quern_few_rows || columns < 1 || width < 1) return invalid;
  if ((reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(w)) % 16 != 0) return invalid;
  if (rows == 0) return 0;
  return with_element(type, [&](auto element) -> int32_t {
    using T = decltype(element);
    if (width % pack<T>::size != 0) return invalid;
    const few_arguments<T> a{columns,
                             width,
                             static_cast<const T*>(x),
                             static_cast<const T*>(w),
                             static_cast<const T*>(bias),
                             static_cast<T*>(y)};
    switch (rows) {
      case 1:
        return start_few_rows<T, 1, gated>(a, stream_of(stream));
      case 2:
        return start_few_rows<T, 2, gated>(a, stream_of(stream));
      case 3:
        return start_few_rows<T, 3, gated>(a, stream_of(stream));
      default:
        return start_few_rows<T, 4, gated>(a, stream_of(stream));
    }
  });
}

}  // namespace

int32_t few_rows_product(int32_t type, int32_t rows, int32_t columns, int32_t width, const void* x,
                         const void* w, const void* bias, void* y, void* stream) {
  return few_rows<false>(type, rows, columns, width, x, w, bias, y, stream);
}

int32_t few_rows_swiglu(int32_t type, int32_t rows, int32_t columns, int32_t width, const void* x,
                        const void* w, void* act, void* stream) {
  return few_rows<true>(type, rows, columns, width, x, w, nullptr, act, stream);
}

}  // namespace quern::policy::device
