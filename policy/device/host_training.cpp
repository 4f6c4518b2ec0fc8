// The scalar table's part of training: one row after another, sums in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "policy/device/host_kernels.hpp"

namespace quern::policy::host {

std::int32_t add_rms_norm(std::int32_t type, std::int32_t rows, std::int32_t width, float eps,
                          const void* delta, void* xs, const void* w, void* y, float* rstd, void*) {
  return with_host_element(type, [&]<class T>(T) {
    for (std::int64_t r = 0; r < rows; ++r) {
      T* x = as<T>(xs) + r * width;
      double squares = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        if (delta != nullptr)
          x[i] = rounded<T>(value_of(x[i]) + value_of(as<T>(delta)[r * width + i]));
        squares += static_cast<double>(value_of(x[i])) * value_of(x[i]);
      }
      const double scale = 1 / std::sqrt(squares / width + eps);
      if (rstd != nullptr) rstd[r] = static_cast<float>(scale);
      for (std::int64_t i = 0; i < width; ++i)
        as<T>(y)[r * width + i] = rounded<T>(value_of(x[i]) * scale * value_of(as<T>(w)[i]));
    }
  });
}

std::int32_t rms_norm_backward(std::int32_t type, std::int32_t rows, std::int32_t width,
                               const void* dys, const void* xs, const void* ws, const float* rstd,
                               void* dxs, float* dw, float*, void*) {
  return with_host_element(type, [&]<class T>(T) {
    const T* w = as<T>(ws);
    for (std::int64_t r = 0; r < rows; ++r) {
      const T *dy = as<T>(dys) + r * width, *x = as<T>(xs) + r * width;
      T* dx = as<T>(dxs) + r * width;
      const double scale = rstd[r];
      double dot = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        const double h = value_of(x[i]) * scale;
        dot += value_of(dy[i]) * value_of(w[i]) * h;
        dw[i] += static_cast<float>(value_of(dy[i]) * h);
      }
      for (std::int64_t i = 0; i < width; ++i)
        dx[i] = rounded<T>(value_of(dx[i]) + scale * (value_of(dy[i]) * value_of(w[i]) -
                                                      value_of(x[i]) * scale * dot / width));
    }
  });
}

static double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

std::int32_t swiglu(std::int32_t type, std::int64_t rows, std::int64_t width, const void* gate_up,
                    void* act, void*) {
  return with_host_element(type, [&]<class T>(T) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < width; ++i) {
        const double g = value_of(as<T>(gate_up)[2 * r * width + i]);
        as<T>(act)[r * width + i] =
            rounded<T>(g * logistic(g) * value_of(as<T>(gate_up)[(2 * r + 1) * width + i]));
      }
  });
}

std::int32_t swiglu_backward(std::int32_t type, std::int64_t rows, std::int64_t width,
                             const void* d_act, const void* gate_up, void* d_gate_up, void*) {
  return with_host_element(type, [&]<class T>(T) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t at = 2 * r * width + i;
        const double g = value_of(as<T>(gate_up)[at]), u = value_of(as<T>(gate_up)[at + width]),
                     s = logistic(g), d = value_of(as<T>(d_act)[r * width + i]);
        as<T>(d_gate_up)[at] = rounded<T>(d * u * s * (1 + g * (1 - s)));
        as<T>(d_gate_up)[at + width] = rounded<T>(d * g * s);
      }
  });
}

std::int32_t split_heads(std::int32_t type, quern_heads s, quern_head_steps how, std::int32_t rows,
                         const void* qkv, const std::int64_t* positions, void* q, void* k, void* v,
                         float* rstd, void*) {
  const std::int64_t heads = std::int64_t{s.kv_heads} * (s.group + 2);
  return with_host_element(type, [&]<class T>(T) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t h = 0; h < heads; ++h) {
        const head_place<T> place(s, how, h);
        auto x = head_of<T>(as<T>(qkv) + (r * heads + h) * s.dim, nullptr, s.dim);
        if (place.norm != nullptr) {
          const double scale = norm_head(x, place.norm, how.eps);
          if (rstd != nullptr) rstd[r * (heads - s.kv_heads) + h] = static_cast<float>(scale);
        }
        if (place.kind != head_place<T>::value) turn_head(x, how, positions[r], 1);
        void* to = place.kind == head_place<T>::query ? q
                   : place.kind == head_place<T>::key ? k
                                                      : v;
        put_head(x, as<T>(to) + place.offset(s, rows, r));
      }
  });
}

std::int32_t split_heads_backward(std::int32_t type, quern_heads s, quern_head_steps how,
                                  std::int32_t rows, const void* dq, const void* dk, const void* dv,
                                  const void* qkv, const float* rstd, const std::int64_t* positions,
                                  void* dqkv, float* dq_norm, float* dk_norm, float*, void*) {
  const std::int64_t heads = std::int64_t{s.kv_heads} * (s.group + 2);
  return with_host_element(type, [&]<class T>(T) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t h = 0; h < heads; ++h) {
        const head_place<T> place(s, how, h);
        const void* from = place.kind == head_place<T>::query ? dq
                           : place.kind == head_place<T>::key ? dk
                                                              : dv;
        auto g = head_of<T>(as<T>(from) + place.offset(s, rows, r), nullptr, s.dim);
        const T* x = as<T>(qkv) + (r * heads + h) * s.dim;
        if (place.kind != head_place<T>::value) turn_head(g, how, positions[r], -1);
        if (place.norm != nullptr) {
          const double scale = rstd[r * (heads - s.kv_heads) + h];
          float* dw = place.kind == head_place<T>::query ? dq_norm : dk_norm;
          double dot = 0;
          for (std::size_t i = 0; i < g.size(); ++i) {
            dw[i] += static_cast<float>(g[i] * value_of(x[i]) * scale);
            g[i] *= value_of(place.norm[i]);
            dot += g[i] * value_of(x[i]) * scale;
          }
          for (std::size_t i = 0; i < g.size(); ++i)
            g[i] = scale * (g[i] - value_of(x[i]) * scale * dot / s.dim);
        }
        put_head(g, as<T>(dqkv) + (r * heads + h) * s.dim);
      }
  });
}

std::int32_t softmax_tile(std::int64_t rows, std::int64_t columns, std::int64_t group,
                          std::int64_t first, float scale, float* s, float* lse, void*) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = s + r * columns;
    const std::int64_t seen = std::min(columns, first + r / group);
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t i = 0; i < seen; ++i)
      top = std::max(top, static_cast<double>(row[i]) * scale);
    for (std::int64_t i = 0; i < seen; ++i)
      sum += std::exp(static_cast<double>(row[i]) * scale - top);
    for (std::int64_t i = 0; i < columns; ++i)
      row[i] = i < seen
                   ? static_cast<float>(std::exp(static_cast<double>(row[i]) * scale - top) / sum)
                   : 0.0F;
    lse[r] = static_cast<float>(top + std::log(sum));
  }
  return 0;
}

std::int32_t softmax_tile_backward(std::int64_t rows, std::int64_t columns, std::int64_t group,
                                   std::int64_t first, float scale, float* s, float* dp,
                                   const float* lse, const float* delta, void*) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t at = r * columns + i;
      const double p = i < std::min(columns, first + r / group)
                           ? std::exp(static_cast<double>(s[at]) * scale - lse[r])
                           : 0.0;
      s[at] = static_cast<float>(p);
      dp[at] = p == 0 ? 0.0F : static_cast<float>(p * (dp[at] - delta[r]) * scale);
    }
  return 0;
}

std::int32_t log_softmax_rows(std::int64_t rows, std::int64_t columns, std::int64_t valid,
                              const float* z, const std::int64_t* targets,
                              const float* inverse_temperature, float* log_prob, float* entropy,
                              float* lse, void*) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = z + r * columns;
    const double inverse = inverse_temperature[r], top = *std::max_element(row, row + valid);
    double sum = 0, weighted = 0;
    for (std::int64_t i = 0; i < valid; ++i) {
      const double below = (row[i] - top) * inverse, p = std::exp(below);
      sum += p;
      if (p > 0) weighted += p * below;
    }
    log_prob[r] = static_cast<float>((row[targets[r]] - top) * inverse - std::log(sum));
    entropy[r] = static_cast<float>(std::log(sum) - weighted / sum);
    lse[r] = static_cast<float>(top * inverse + std::log(sum));
  }
  return 0;
}

std::int32_t log_softmax_gradient(std::int32_t type, std::int64_t rows, std::int64_t columns,
                                  std::int64_t valid, const float* z, const std::int64_t* targets,
                                  const float* inverse_temperature, const float* lse,
                                  const float* gradient, void* out, void*) {
  return with_host_element(type, [&]<class T>(T) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < columns; ++i) {
        const double inverse = inverse_temperature[r];
        const double p = i < valid ? std::exp(z[r * columns + i] * inverse - lse[r]) : 0.0;
        as<T>(out)[r * columns + i] =
            rounded<T>(gradient[r] * inverse * ((i == targets[r] ? 1.0 : 0.0) - p));
      }
  });
}

std::int32_t adamw(quern_adamw how, std::int64_t count, float* master, std::int32_t gradient_type,
                   const void* gradient, float* first, float* second, std::int32_t weight_type,
                   void* weights, void*) {
  if (how.skip != nullptr && *how.skip != 0) return 0;
  return with_host_element(gradient_type, [&]<class G>(G) {
    with_host_element(weight_type, [&]<class W>(W) {
      for (std::int64_t i = 0; i < count; ++i) {
        const double g = value_of(as<G>(gradient)[i]) /
                         (how.divisor != nullptr ? static_cast<double>(*how.divisor) : 1.0);
        const double m = how.beta1 * static_cast<double>(first[i]) + (1.0 - how.beta1) * g,
                     v = how.beta2 * static_cast<double>(second[i]) + (1.0 - how.beta2) * g * g;
        const double direction =
            m / how.correction1 / (std::sqrt(v / how.correction2) + how.epsilon);
        const double w =
            master[i] -
            how.learning_rate * (how.weight_decay * static_cast<double>(master[i]) + direction);
        first[i] = static_cast<float>(m);
        second[i] = static_cast<float>(v);
        master[i] = static_cast<float>(w);
        if (weights != nullptr) as<W>(weights)[i] = rounded<W>(w);
      }
    });
  });
}

}  // namespace quern::policy::host
