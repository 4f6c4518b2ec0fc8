// Comparing a stretch of finite floating-point numbers, at the speed of reading them.
#pragma once

#include <cstddef>

namespace quern::env {

/// Whether |got - want| <= atol + rtol |want| for each of `count` elements. False also where a
/// NaN, or an infinity in `want`, needs a rule of its own.
bool block_right(const float* got, const float* want, std::size_t count, float atol, float rtol);
bool block_right(const double* got, const double* want, std::size_t count, double atol,
                 double rtol);

}  // namespace quern::env
