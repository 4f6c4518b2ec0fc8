// Host kernels around softmax: tiles of causal attention, rows of logits, attention of one row over
// the cache. Contracts in table.hpp.
#pragma once

namespace quern::policy::kernels::QUERN_ISA {

template <class T>
inline T largest(const T* x, std::int64_t n) {
  vec<T> best = splat(x[0]);
  T rest = x[0];
  over<T>(
      n, [&](std::int64_t i) { best = larger<T>(best, load(x + i)); },
      [&](std::int64_t i) { rest = x[i] > rest ? x[i] : rest; });
  const T in_vector = maximum<T>(best);
  return in_vector > rest ? in_vector : rest;
}

/// y = e^(scale x - shift); returns the sum. y may be x.
template <class T>
inline T exponentials(const T* x, std::int64_t n, T scale, T shift, T* y) {
  vec<T> sum{};
  T rest = 0;
  over<T>(
      n,
      [&](std::int64_t i) {
        const vec<T> e = exponential(load(x + i) * splat(scale) - splat(shift));
        store<T>(y + i, e);
        sum += e;
      },
      [&](std::int64_t i) { rest += y[i] = scalar_exp(x[i] * scale - shift); });
  return total<T>(sum) + rest;
}

template <class T>
inline void scale_by(T* x, std::int64_t n, T factor) {
  over<T>(
      n, [&](std::int64_t i) { store<T>(x + i, load(x + i) * splat(factor)); },
      [&](std::int64_t i) { x[i] *= factor; });
}

template <class T>
inline void clear(T* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    x[i] = 0;
}

template <class T>
void softmax_tile(T* s, std::int64_t rows, std::int64_t columns, std::int64_t group,
                  std::int64_t first, T scale, T* lse) {
  for (std::int64_t r = 0; r < rows; ++r, s += columns) {
    const std::int64_t n = first + r / group;
    const T shift = largest(s, n) * scale;
    const T sum = exponentials(s, n, scale, shift, s);
    scale_by(s, n, T(1) / sum);
    clear(s + n, columns - n);
    lse[r] = shift + scalar_log(sum);
  }
}

template <class T>
void softmax_tile_backward(T* s, T* dp, std::int64_t rows, std::int64_t columns, std::int64_t group,
                           std::int64_t first, T scale, const T* lse, const T* delta) {
  for (std::int64_t r = 0; r < rows; ++r, s += columns, dp += columns) {
    const std::int64_t n = first + r / group;
    exponentials(s, n, scale, lse[r], s);
    const T mean = delta[r];
    over<T>(
        n,
        [&](std::int64_t i) {
          store<T>(dp + i, load(s + i) * (load(dp + i) - splat(mean)) * splat(scale));
        },
        [&](std::int64_t i) { dp[i] = s[i] * (dp[i] - mean) * scale; });
    clear(s + n, columns - n);
    clear(dp + n, columns - n);
  }
}

template <class T>
void log_softmax_rows(const T* z, const std::int64_t* targets, const T* inverse_temperature,
                      std::int64_t rows, std::int64_t columns, std::int64_t valid, T* log_prob,
                      T* entropy, T* lse) {
  for (std::int64_t r = 0; r < rows; ++r, z += columns) {
    const T scale = inverse_temperature[r], shift = largest(z, valid) * scale;
    vec<T> sums{}, weighted{};
    T sum = 0, moment = 0;
    over<T>(
        valid,
        [&](std::int64_t i) {
          const vec<T> x = load(z + i) * splat(scale) - splat(shift), e = exponential(x);
          sums += e;
          weighted += e * x;
        },
        [&](std::int64_t i) {
          const T x = z[i] * scale - shift, e = scalar_exp(x);
          sum += e;
          moment += e * x;
        });
    sum += total<T>(sums);
    moment += total<T>(weighted);
    const T log_sum = scalar_log(sum);
    lse[r] = shift + log_sum;
    log_prob[r] = (z[targets[r]] * scale - shift) - log_sum;
    entropy[r] = log_sum - moment / sum;
  }
}

template <class T>
void log_softmax_gradient(T* z, const std::int64_t* targets, const T* inverse_temperature,
                          const T* lse, const T* gradient, std::int64_t rows, std::int64_t columns,
                          std::int64_t valid) {
  for (std::int64_t r = 0; r < rows; ++r, z += columns) {
    const T factor = gradient[r] * inverse_temperature[r];
    exponentials(z, valid, inverse_temperature[r], lse[r], z);
    scale_by(z, valid, -factor);
    clear(z + valid, columns - valid);
    z[targets[r]] += factor;
  }
}

template <class T>
void store_row(head_shape shape, const T* k, const T* v, std::int64_t rows, std::int64_t row,
               std::int64_t position, std::int64_t capacity, T* key_cache, T* value_cache) {
  const std::int64_t d = shape.dim;
  for (std::int64_t h = 0; h < shape.kv_heads; ++h) {
    const T* key = k + (h * rows + row) * d;
    T* keys =
        key_cache + h * capacity * d + position / key_block * key_block * d + position % key_block;
    for (std::int64_t i = 0; i < d; ++i)
      keys[i * key_block] = key[i];
    __builtin_memcpy(value_cache + (h * capacity + position) * d, v + (h * rows + row) * d,
                     static_cast<std::size_t>(d) * sizeof(T));
  }
}

/// One head's keys or values: positions below `shared` lie in one slot's cache, the rest in
/// another's.
template <class T>
struct two_caches {
  const T* first;
  const T* second;
  std::int64_t shared;
};

/// Scores of `heads` query heads against every block of keys in [begin, end).
template <class T, int heads>
inline void block_scores(const T* q, const T* keys, std::int64_t d, std::int64_t begin,
                         std::int64_t end, T scale, T* scores, std::int64_t stride) {
  constexpr std::int64_t parts = key_block / lanes<T>;
  keys += begin * key_block * d;
  for (std::int64_t b = begin; b < end; ++b, keys += key_block * d) {
    vec<T> sum[heads][parts] = {};
    for (std::int64_t i = 0; i < d; ++i)
      for (std::int64_t p = 0; p < parts; ++p) {
        const vec<T> key = load(keys + i * key_block + p * lanes<T>);
        for (int h = 0; h < heads; ++h)
          sum[h][p] += key * splat(q[h * d + i]);
      }
    for (int h = 0; h < heads; ++h)
      for (std::int64_t p = 0; p < parts; ++p)
        store<T>(scores + h * stride + b * key_block + p * lanes<T>, sum[h][p] * splat(scale));
  }
}

/// out[h] = sum over positions of scores[h] * value, positions ascending.
template <class T, int heads>
inline void weighted_values(const T* scores, std::int64_t stride, const two_caches<T>& values,
                            std::int64_t d, std::int64_t length, T* out) {
  constexpr std::int64_t parts = lanes<T> >= 16 ? 2 : 4;
  const std::int64_t shared = values.shared < length ? values.shared : length;
  std::int64_t begin = 0;
  for (; begin + parts * lanes<T> <= d; begin += parts * lanes<T>) {
    vec<T> sum[heads][parts] = {};
    const auto add = [&](const T* source, std::int64_t from, std::int64_t to) {
      for (std::int64_t t = from; t < to; ++t)
        for (std::int64_t p = 0; p < parts; ++p) {
          const vec<T> value = load(source + t * d + begin + p * lanes<T>);
          for (int h = 0; h < heads; ++h)
            sum[h][p] += value * splat(scores[h * stride + t]);
        }
    };
    add(values.first, 0, shared);
    add(values.second, shared, length);
    for (int h = 0; h < heads; ++h)
      for (std::int64_t p = 0; p < parts; ++p)
        store<T>(out + h * d + begin + p * lanes<T>, sum[h][p]);
  }
  for (; begin < d; ++begin)
    for (int h = 0; h < heads; ++h) {
      T sum = 0;
      for (std::int64_t t = 0; t < length; ++t)
        sum += (t < shared ? values.first : values.second)[t * d + begin] * scores[h * stride + t];
      out[h * d + begin] = sum;
    }
}

template <class T, int heads>
inline void attend(const T* q, const two_caches<T>& keys, const two_caches<T>& values,
                   std::int64_t d, std::int64_t length, std::int64_t capacity, T* scratch, T* out) {
  const std::int64_t stride = capacity + key_block, blocks = (length + key_block - 1) / key_block;
  const std::int64_t shared = keys.shared / key_block < blocks ? keys.shared / key_block : blocks;
  const T scale = T(1) / scalar_sqrt(static_cast<T>(d));
  block_scores<T, heads>(q, keys.first, d, 0, shared, scale, scratch, stride);
  block_scores<T, heads>(q, keys.second, d, shared, blocks, scale, scratch, stride);
  T inverse[heads];
  for (int h = 0; h < heads; ++h) {
    T* s = scratch + h * stride;
    inverse[h] = T(1) / exponentials(s, length, T(1), largest(s, length), s);
  }
  weighted_values<T, heads>(scratch, stride, values, d, length, out);
  for (int h = 0; h < heads; ++h)
    scale_by(out + h * d, d, inverse[h]);
}

template <class T>
void cached_attention(head_shape shape, std::int64_t head, const T* q, std::int64_t rows,
                      std::int64_t row, std::int64_t shared, std::int64_t length,
                      std::int64_t capacity, const T* shared_keys, const T* shared_values,
                      const T* own_keys, const T* own_values, T* scratch, T* out) {
  const std::int64_t d = shape.dim;
  const two_caches<T> keys{shared_keys, own_keys, shared},
      values{shared_values, own_values, shared};
  for (std::int64_t g = 0; g < shape.group;) {
    const T* query = q + ((head * rows + row) * shape.group + g) * d;
    T* target = out + (head * shape.group + g) * d;
    const std::int64_t left = shape.group - g;
    if (left >= 4)
      attend<T, 4>(query, keys, values, d, length, capacity, scratch, target), g += 4;
    else if (left == 3)
      attend<T, 3>(query, keys, values, d, length, capacity, scratch, target), g += 3;
    else if (left == 2)
      attend<T, 2>(query, keys, values, d, length, capacity, scratch, target), g += 2;
    else
      attend<T, 1>(query, keys, values, d, length, capacity, scratch, target), g += 1;
  }
}

}  // namespace quern::policy::kernels::QUERN_ISA
