// Evidence of a module on a GPU: read from what its process told, and held against a suite's
// policy.
#pragma once

#include <string_view>

#include "base/status.hpp"
#include "env/task/suite_policy.hpp"
#include "env/verdict/evidence.hpp"
#include "env/verdict/finding.hpp"

namespace quern::env {

/// Evidence from the answer of python_child::evidence(). `is_fp32`: whether narrower types than
/// f32 are less than the task asks for. Error: invalid_argument: it is not such an answer.
base::expected<evidence_report> parse_evidence(std::string_view answer, bool is_fp32);

/// Share of the device time that PyTorch's own kernels may take where a suite forbids libraries:
/// copies, fills and transpositions around a kernel are no fallback.
inline constexpr double most_of_torch = 0.5;

/// `rejected_static` where a policy that goes by evidence forbids what was seen, with the switch
/// as its reason; else ok. What is not known forbids nothing.
finding held_against(const evidence_report& seen, const suite_policy& policy);

}  // namespace quern::env
