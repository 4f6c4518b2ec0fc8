#include "actors/workers/generator_setup.hpp"

#include <algorithm>

namespace quern::actors {
namespace {

/// Of a pass on a GPU in exact mode, prompts included.
constexpr std::int32_t exact_rows_on_gpu = 128;

}  // namespace

policy::generator_options generator_options_of(const run_config& config,
                                               const policy::model_config& model,
                                               std::int64_t valid_tokens, at::Device device) {
  policy::generator_options options;
  // The groups of two steps decode together, the rest waits in order.
  options.slots =
      static_cast<std::int32_t>(2 * config.algorithm.groups_per_step * config.algorithm.group_size);
  options.capacity = static_cast<std::int32_t>(std::min(
      model.max_positions, config.policy.max_prompt_tokens + config.policy.max_new_tokens));
  options.valid_tokens = valid_tokens;
  options.device = device;
  options.full_precision = config.actors.generator_precision == "float32";
  options.exact = config.actors.exact;
  if (options.exact && device.is_cuda()) options.rows = exact_rows_on_gpu;
  return options;
}

}  // namespace quern::actors
