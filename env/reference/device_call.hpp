// Where the tensors of a reference's calls lie on a device: what the evaluator asked for, checked,
// and as views. Plain arithmetic; no CUDA.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "env/reference/script.hpp"
#include "env/runner/gpu_protocol.hpp"

namespace quern::env {

/// One region of the evaluator's memory as this process has it mapped. No bytes: it is not there.
struct mapped_region {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

/// By QUERN_INPUTS, ...
using mapped_regions = std::array<mapped_region, QUERN_REGIONS>;

/// Whether a call can be carried out anywhere: counts, types, ranks, regions, alignment; and under
/// a graph, whose addresses are fixed, that inputs lie at the same place in every slot. Errors:
/// invalid_argument.
base::status check_call(const runner::gpu_call_request& call);

/// Whether every tensor of a checked call lies inside its region for each of these orders. Errors:
/// invalid_argument.
base::status check_places(const runner::gpu_call_request& call, std::span<const quern_order> orders,
                          const mapped_regions& regions);

/// Views of a slot's inputs, or outputs (f64 in the place of every floating type when the call is
/// in f64), of a call whose places were checked.
void view_inputs(const runner::gpu_call_request& call, std::int32_t slot,
                 const mapped_regions& regions, std::vector<tensor_view>& into);
void view_outputs(const runner::gpu_call_request& call, std::int32_t slot,
                  const mapped_regions& regions, std::vector<tensor_view>& into);

}  // namespace quern::env
