// Stands for torch/extension.h in a candidate's C++ source: LibTorch's own classes, without
// pybind11, autograd and nn. The functions of ATen that the source names are included by the
// builder.
#pragma once

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <limits>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Headers of ATen that need operators include those alone.
#ifndef AT_PER_OPERATOR_HEADERS
#define AT_PER_OPERATOR_HEADERS
#endif
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>

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
