// What tests of the policy engine on a GPU begin with.
#pragma once

#include "policy/engine/device.hpp"
#include "support/gpu.hpp"

namespace quern::test {

/// Before the first operator of the process: see policy::load_cuda.
inline const bool cuda_is_loaded = [] {
  policy::load_cuda();
  return true;
}();

/// Whether LibTorch has a GPU here; else the test is skipped with the reason, or fails where one is
/// required (go_on_with_gpu).
inline bool go_on_with_cuda() {
  const auto device = policy::choose_device("cuda");
  return go_on_with_gpu(cuda_is_loaded && device.has_value(), device ? "" : device.error().message);
}

/// Where go_on_with_cuda() is true.
inline at::Device cuda_device() {
  return policy::choose_device("cuda").value();
}

}  // namespace quern::test
