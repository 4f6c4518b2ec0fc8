// The table of small kernels (policy/device/kernels.h) for a device, found at run time: nothing
// here needs CUDA to be built or linked.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "policy/device/kernels.h"
#include "policy/engine/graph_part.h"

namespace quern::policy {

/// The scalar table, which works on host memory and ignores streams. What each kernel means.
const quern_policy_kernels& host_policy_kernels();

/// libquern_policy_cuda.so beside the program, loaded once. Error unavailable, with the reason:
/// there is no such file (built without nvcc) or it cannot be loaded.
base::expected<const quern_policy_kernels*> cuda_policy_kernels();

/// Functions of libquern_policy_graph.so.
struct graph_functions {
  decltype(&quern_policy_graph_open) open = nullptr;
  decltype(&quern_policy_graph_capture) capture = nullptr;
  decltype(&quern_policy_graph_replay) replay = nullptr;
  decltype(&quern_policy_graph_problem) problem = nullptr;
  decltype(&quern_policy_graph_close) close = nullptr;
};

/// Loaded once, after LibTorch's CUDA part.
base::expected<const graph_functions*> cuda_graph_functions();

/// The same table, or null where there is none and compositions of ATen's operators have to do.
const quern_policy_kernels* cuda_policy_kernels_or_null();

}  // namespace quern::policy
