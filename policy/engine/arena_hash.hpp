// The hash of weights where they lie.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "base/hash.hpp"
#include "policy/device/library.hpp"
#include "policy/weights/catalogue.hpp"

namespace quern::policy {

/// weights_hash (policy/weights/weight_hash.hpp) over the float32 values of `flat`, an arena of
/// `layout` in float32 or bfloat16 on the memory that `kernels` work on. Waits for the result.
/// Throws what LibTorch throws, and std::runtime_error where a kernel fails.
base::hash128 hash_by(const quern_policy_kernels& kernels, const catalogue& layout,
                      const at::Tensor& flat);

/// The same on a GPU, without a copy of the weights; nothing for tensors elsewhere, of other types,
/// or without kernels.
std::optional<base::hash128> hash_on_device(const catalogue& layout, const at::Tensor& flat);

}  // namespace quern::policy
