// Where runs of an ablation are made side by side: each has processors, and perhaps a GPU, that no
// other one has, so that none disturbs what another measures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"

namespace quern::tools {

struct ablation_place {
  std::vector<int> processors;
  std::optional<int> gpu;
};

/// "0,2" to GPUs. Errors: invalid_argument for what is no number in 0 .. 63, one that stands twice,
/// and none.
base::expected<std::vector<int>> parse_gpus(std::string_view list);

/// `count` places that share out `processors` in equal parts of neighbours, which may be two
/// threads of one core; what is left over stays idle. Error: invalid_argument where there are fewer
/// processors than places.
base::expected<std::vector<ablation_place>> places_on(const std::vector<int>& processors,
                                                      std::int64_t count);

/// A place for each GPU, as above.
base::expected<std::vector<ablation_place>> places_on(const std::vector<int>& processors,
                                                      const std::vector<int>& gpus);

/// Settings that have all roles of a run use the GPU of the place; empty without one.
std::vector<std::string> settings_of(const ablation_place& place);

/// Whether a key says only where a run is made: such keys may differ between runs that are
/// compared, and change when a run goes on.
bool is_placing(std::string_view key);

/// What a run must not name where `places` decide: its core, or several ranks of a learner on one
/// GPU. Errors: invalid_argument, with the key and what to do.
base::status check_places(const std::vector<ablation_place>& places,
                          const actors::run_config& config);

/// "processors 4-5", "processors 0-15, GPU 0".
std::string to_text(const ablation_place& place);

}  // namespace quern::tools
