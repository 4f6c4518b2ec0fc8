// How something is to be measured, in one word: a protocol and, where it is not the task's own, the
// baseline. Jobs, verdicts, ledger and archive keep this word, so that no two ways of measuring
// share a key.
#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "env/measure/protocols.hpp"
#include "env/verdict/baseline.hpp"

namespace quern::env {

/// `cost_model/1` measures nothing (env/judge/cost_model.hpp).
inline constexpr std::string_view protocol_cost_model = "cost_model/1";

struct measure_name {
  std::string protocol{protocol_paired};  ///< with its version
  baseline_choice baseline = baseline_choice::of_task;
  friend bool operator==(const measure_name&, const measure_name&) = default;
};

/// "paired/1", "paired/1@graph". The version may be left out, since each protocol has one. Error:
/// an unknown protocol or baseline, with the nearest and all known ones.
base::expected<measure_name> parse_measure_name(std::string_view text);

std::string to_text(const measure_name& name);

/// Seconds of one measurement where nobody says how long: the protocol's own (CUDA-L1: 30 and 20
/// minutes), else `otherwise`.
double usual_seconds(const measure_name& name, double otherwise);

}  // namespace quern::env
