// Content of a tensor on the device: every element a pure function of (stream, index), the same
// code for host and device. New content for a call is another stream, so nothing that a kernel
// learnt from other calls helps with this one.
//
// Normal numbers are Box-Muller (1958) on Philox4x32-10 (Salmon et al., SC 2011); host and device
// may differ in the last bits of log and cos, so content is only ever compared where it was made.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "env/device/context_part.h"

#if defined(__CUDACC__)
#define QUERN_BOTH __host__ __device__ __forceinline__
#else
#define QUERN_BOTH inline
#endif

namespace quern::env::content {

struct words {
  uint32_t w[4];
};

/// One block of Philox4x32-10 at `position` of a stream.
QUERN_BOTH words block_at(uint64_t key, uint64_t stream, uint64_t position) {
  uint32_t c0 = static_cast<uint32_t>(position), c1 = static_cast<uint32_t>(position >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(0xD2511F53U) * c0;
    const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57U) * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

/// 32 random bits to the open interval (0, 1), in steps of 2^-23: with one bit more, the half would
/// round the last of them up to 1.
QUERN_BOTH float unit(uint32_t bits) {
  return (static_cast<float>(bits >> 9) + 0.5F) * (1.0F / 8388608.0F);
}

struct four {
  float v[4];
};

QUERN_BOTH four normals(const words& r) {
  four out;
  for (int half = 0; half < 2; ++half) {
    const float radius = sqrtf(-2.0F * logf(unit(r.w[2 * half])));
    const float angle = 6.283185307F * unit(r.w[2 * half + 1]);
    out.v[2 * half] = radius * cosf(angle);
    out.v[2 * half + 1] = radius * sinf(angle);
  }
  return out;
}

/// Quantile function of the normal distribution (Giles 2010, single precision, by erfinv).
QUERN_BOTH float normal_quantile(float p) {
  const float x = 2.0F * p - 1.0F;
  float w = -logf((1.0F - x) * (1.0F + x));
  float r = 0;
  if (w < 5.0F) {
    w -= 2.5F;
    r = 2.81022636e-08F;
    r = 3.43273939e-07F + r * w;
    r = -3.5233877e-06F + r * w;
    r = -4.39150654e-06F + r * w;
    r = 0.00021858087F + r * w;
    r = -0.00125372503F + r * w;
    r = -0.00417768164F + r * w;
    r = 0.246640727F + r * w;
    r = 1.50140941F + r * w;
  } else {
    w = sqrtf(w) - 3.0F;
    r = -0.000200214257F;
    r = 0.000100950558F + r * w;
    r = 0.00134934322F + r * w;
    r = -0.00367342844F + r * w;
    r = 0.00573950773F + r * w;
    r = -0.0076224613F + r * w;
    r = 0.00943887047F + r * w;
    r = 1.00167406F + r * w;
    r = 2.83297682F + r * w;
  }
  return 1.41421356F * r * x;
}

/// Words of a second stream, for what one block is too short for.
constexpr uint64_t side_stream = 0x9E3779B97F4A7C15ULL;
/// Positions that belong to the tensor, not to an element.
constexpr uint64_t whole_tensor = ~0ULL;

/// A number in [0, below) from 32 or 64 random bits; below > 0.
QUERN_BOTH int64_t bounded(uint64_t bits, int64_t below) {
  if (below <= 0xFFFFFFFFLL)
    return static_cast<int64_t>(((bits >> 32) * static_cast<uint64_t>(below)) >> 32);
  return static_cast<int64_t>(bits % static_cast<uint64_t>(below));
}

/// Elements 4 * position ... + 3 of a floating tensor, before rounding to its type.
QUERN_BOTH four floats_at(const quern_content& c, uint64_t position) {
  const words r = block_at(c.key, c.stream, position);
  four out;
  switch (c.kind) {
    case QUERN_UNIFORM:
      for (int i = 0; i < 4; ++i)
        out.v[i] = 2.0F * unit(r.w[i]) - 1.0F;
      return out;
    case QUERN_POSITIVE:
      for (int i = 0; i < 4; ++i)
        out.v[i] = 0.5F + unit(r.w[i]);
      return out;
    case QUERN_LARGE:
      out = normals(r);
      for (int i = 0; i < 4; ++i)
        out.v[i] *= 64.0F;
      return out;
    case QUERN_SPARSE: {
      out = normals(r);
      const words keep = block_at(c.key, c.stream ^ side_stream, position);
      for (int i = 0; i < 4; ++i)
        if (unit(keep.w[i]) >= 0.1F) out.v[i] = 0.0F;
      return out;
    }
    case QUERN_SORTED:
      for (int i = 0; i < 4; ++i) {
        const int64_t element = static_cast<int64_t>(4 * position) + i;
        const int64_t at = element % c.row;
        // Just below 1: the last quantile of a long row stays finite.
        const double p = (static_cast<double>(at) + static_cast<double>(unit(r.w[i]))) /
                         static_cast<double>(c.row);
        const float q = static_cast<float>(p);
        out.v[i] = normal_quantile(q < 1e-7F ? 1e-7F : (q > 0.9999999F ? 0.9999999F : q));
      }
      return out;
    case QUERN_CONSTANT: {
      const four one = normals(block_at(c.key, c.stream, whole_tensor));
      for (int i = 0; i < 4; ++i)
        out.v[i] = one.v[0];
      return out;
    }
    case QUERN_SPECIAL: {
      out = normals(r);
      const words odd = block_at(c.key, c.stream ^ side_stream, position);
      for (int i = 0; i < 4; ++i) {
        if (odd.w[i] % 64U == 0) out.v[i] = INFINITY;
        if (odd.w[i] % 64U == 1) out.v[i] = -INFINITY;
        if (odd.w[i] % 64U == 2) out.v[i] = NAN;
      }
      return out;
    }
    default:
      return normals(r);
  }
}

/// Element `i` of block `position` of an integer tensor: in [0, below).
QUERN_BOTH int64_t integer_at(const quern_content& c, uint64_t position, int i) {
  const words r = block_at(c.key, c.stream, position);
  const words more = block_at(c.key, c.stream ^ side_stream, position);
  const uint64_t bits = (static_cast<uint64_t>(r.w[i]) << 32) | more.w[i];
  switch (c.kind) {
    case QUERN_SPARSE:
      return unit(more.w[(i + 1) % 4]) < 0.1F ? bounded(bits, c.below) : 0;
    case QUERN_CONSTANT: {
      const words one = block_at(c.key, c.stream, whole_tensor);
      return bounded((static_cast<uint64_t>(one.w[0]) << 32) | one.w[1], c.below);
    }
    case QUERN_SORTED: {
      const int64_t at = (static_cast<int64_t>(4 * position) + i) % c.row;
      const double p = (static_cast<double>(at) + static_cast<double>(unit(r.w[i]))) /
                       static_cast<double>(c.row);
      const auto value = static_cast<int64_t>(p * static_cast<double>(c.below));
      return value < c.below ? value : c.below - 1;
    }
    default:
      return bounded(bits, c.below);
  }
}

/// A subnormal number of either sign: `bits` with the exponent cleared, never zero.
QUERN_BOTH float subnormal_f32(uint32_t bits) {
  const uint32_t pattern = (bits & 0x807FFFFFU) | 1U;
  float value;
  memcpy(&value, &pattern, sizeof value);
  return value;
}

/// Low bits for a double: f64 content must not be what f32 can hold.
QUERN_BOTH double widened(float value, uint32_t bits) {
  return static_cast<double>(value) *
         (1.0 + (static_cast<double>(bits) - 2147483648.0) * (1.0 / 2147483648.0) * 5.9e-8);
}

}  // namespace quern::env::content
