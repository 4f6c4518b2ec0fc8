// What the last weights of an arm make of the kernels that held-out prompts show: how often an
// answer improves on them or copies one, and whether kernels of another task do as well.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/orchestrator/exemplar_use.hpp"
#include "tools/ablate/table.hpp"

namespace quern::tools {

/// Answers to prompts that showed kernels, of all seeds of an arm.
struct shown_figures {
  actors::exemplar_use use;
  double success = 0;  ///< share of judged answers that are right
  double reward = 0;   ///< mean of judged answers
};

struct exemplar_row {
  std::string name;
  shown_figures own;      ///< the prompts showed kernels of their task
  shown_figures swapped;  ///< the same prompts with kernels of another task
  /// `own` over `swapped`, over prompts that were judged in both; none without the control.
  std::optional<arm_difference> difference;
};

/// Of the arms that have such answers, in their order. `seed` addresses the bootstrap.
std::vector<exemplar_row> exemplar_rows(const std::vector<ablation_arm>& arms, std::uint64_t seed);

/// For people; empty where no arm has such answers.
std::string to_text(const std::vector<exemplar_row>& rows);
/// "exemplars" of ablation.json (docs/ablation.md).
base::ordered_json to_json(const std::vector<exemplar_row>& rows);

}  // namespace quern::tools
