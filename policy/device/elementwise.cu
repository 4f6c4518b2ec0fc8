// SwiGLU and its gradient, AdamW.
#include <algorithm>

#include "policy/device/common.cuh"
#include "policy/device/functions.hpp"

namespace quern::policy::device {
namespace {

constexpr int element_threads = 256;

int blocks_for(int64_t items) {
  return static_cast<int>(
      std::min<int64_t>((items + element_threads - 1) / element_threads, 1 << 16));
}

template <class... P>
bool aligned(P... pointers) {
  return (((reinterpret_cast<uintptr_t>(pointers)) | ...) % 16) == 0;
}

__device__ float sigmoid(float x) {
  return 1.0F / (1.0F + __expf(-x));
}

/// `step` elements at a time: a pack, or one.
template <class T, int step>
__global__ void __launch_bounds__(element_threads)
    swiglu_kernel(int64_t rows, int64_t width, const T* gate_up, T* act) {
  const int64_t columns = width / step, total = rows * columns;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < total;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t row = i / columns, column = (i - row * columns) * step;
    const T* gate = gate_up + row * 2 * width + column;
    T* to = act + row * width + column;
    const auto one = [](T g, T u) {
      const float x = to_float(g);
      return from_float<T>(x * sigmoid(x) * to_float(u));
    };
    if constexpr (step == 1) {
      *to = one(*gate, gate[width]);
    } else {
      const auto g = *reinterpret_cast<const pack<T>*>(gate),
                 u = *reinterpret_cast<const pack<T>*>(gate + width);
      pack<T> result;
#pragma unroll
      for (int j = 0; j < step; ++j)
        result.at[j] = one(g.at[j], u.at[j]);
      *reinterpret_cast<pack<T>*>(to) = result;
    }
  }
}

template <class T, int step>
__global__ void __launch_bounds__(element_threads)
    swiglu_backward_kernel(int64_t rows, int64_t width, const T* d_act, const T* gate_up,
                           T* d_gate_up) {
  const int64_t columns = width / step, total = rows * columns;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < total;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t row = i / columns, column = (i - row * columns) * step,
                  at = row * 2 * width + column;
    const T* from = d_act + row * width + column;
    const auto one = [](T given, T gate, T up, T& d_gate, T& d_up) {
      const float g = to_float(gate), u = to_float(up), s = sigmoid(g), d = to_float(given);
      d_gate = from_float<T>(d * u * s * (1 + g * (1 - s)));
      d_up = from_float<T>(d * g * s);
    };
    if constexpr (step == 1) {
      one(*from, gate_up[at], gate_up[at + width], d_gate_up[at], d_gate_up[at + width]);
    } else {
      const auto d = *reinterpret_cast<const pack<T>*>(from),
                 g = *reinterpret_cast<const pack<T>*>(gate_up + at),
                 u = *reinterpret_cast<const pack<T>*>(gate_up + at + width);
      pack<T> d_gate, d_up;
#pragma unroll
      for (int j = 0; j < step; ++j)
        one(d.at[j], g.at[j], u.at[j], d_gate.at[j], d_up.at[j]);
      *reinterpret_cast<pack<T>*>(d_gate_up + at) = d_gate;
      *reinterpret_cast<pack<T>*>(d_gate_up + at + width) = d_up;
    }
  }
}

template <class G, class W>
__global__ void __launch_bounds__(element_threads)
    adamw_kernel(quern_adamw how, int64_t count, float* master, const G* gradient, float* first,
                 float* second, W* weights) {
  if (how.skip != nullptr && *how.skip != 0) return;
  const float divisor = how.divisor != nullptr ? *how.divisor : 1.0F;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const float g = to_float(gradient[i]) / divisor;
    const float m = how.beta1 * first[i] + (1 - how.beta1) * g,
                v = how.beta2 * second[i] + (1 - how.beta2) * g * g;
    const float direction = (m / how.correction1) / (sqrtf(v / how.correction2) + how.epsilon);
    const float w = master[i] - how.learning_rate * (how.weight_decay * master[i] + direction);
    first[i] = m;
    second[i] = v;
    master[i] = w;
    if (weights != nullptr) weights[i] = from_float<W>(w);
  }
}

}  // namespace

int32_t swiglu(int32_t type, int64_t rows, int64_t width, const void* gate_up, void* act,
               void* stream) {
  if (rows < 0 || width < 1) return invalid;
  if (rows == 0) return 0;
  return with_element(type, [&](auto element) {
    using T = decltype(element);
    const auto* from = static_cast<const T*>(gate_up);
    auto* to = static_cast<T*>(act);
    constexpr int step = pack<T>::size;
    if (width % step == 0 && aligned(gate_up, act))
      swiglu_kernel<T, step>
          <<<blocks_for(rows * width / step), element_threads, 0, stream_of(stream)>>>(rows, width,
                                                                                       from, to);
    else
      swiglu_kernel<T, 1><<<blocks_for(rows * width), element_threads, 0, stream_of(stream)>>>(
          rows, width, from, to);
    return launched();
  });
}

int32_t swiglu_backward(int32_t type, int64_t rows, int64_t width, const void* d_act,
                        const void* gate_up, void* d_gate_up, void* stream) {
  if (rows < 0 || width < 1) return invalid;
  if (rows == 0) return 0;
  return with_element(type, [&](auto element) {
    using T = decltype(element);
    const auto* given = static_cast<const T*>(d_act);
    const auto* from = static_cast<const T*>(gate_up);
    auto* to = static_cast<T*>(d_gate_up);
    constexpr int step = pack<T>::size;
    if (width % step == 0 && aligned(d_act, gate_up, d_gate_up))
      swiglu_backward_kernel<T, step>
          <<<blocks_for(rows * width / step), element_threads, 0, stream_of(stream)>>>(
              rows, width, given, from, to);
    else
      swiglu_backward_kernel<T, 1>
          <<<blocks_for(rows * width), element_threads, 0, stream_of(stream)>>>(rows, width, given,
                                                                                from, to);
    return launched();
  });
}

int32_t adamw(quern_adamw how, int64_t count, float* master, int32_t gradient_type,
              const void* gradient, float* first, float* second, int32_t weight_type, void* weights,
              void* stream) {
  if (count < 0) return invalid;
  if (count == 0) return 0;
  return with_element(gradient_type, [&](auto gradient_element) {
    using G = decltype(gradient_element);
    return with_element(weight_type, [&](auto weight_element) {
      using W = decltype(weight_element);
      adamw_kernel<G, W><<<blocks_for(count), element_threads, 0, stream_of(stream)>>>(
          how, count, master, static_cast<const G*>(gradient), first, second,
          static_cast<W*>(weights));
      return launched();
    });
  });
}

}  // namespace quern::policy::device
