// What a process of a run will hold in memory, before it starts: a table by purpose, whether it
// fits, and which setting to change when it does not. Plain arithmetic over the model's shape; the
// sizes are those of the buffers that the engine makes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "policy/text/model_config.hpp"

namespace quern::policy {

/// What a backward pass computes again instead of keeping it from the forward pass. Results are the
/// same bits (on a GPU in bfloat16 up to the order of additions); memory and time are traded.
enum class recompute_mode : std::uint8_t {
  none,
  mlp,  ///< the half of a block behind the attention, without its last product: most of the bytes
  full  ///< all but the input of each block
};
std::string_view to_string(recompute_mode mode);
base::expected<recompute_mode> parse_recompute(std::string_view text);

/// Sequences that an exact learner's scorer computes side by side (policy/engine/exact_scorer.hpp).
constexpr std::int32_t scorer_slots = 16;

/// A learner's rank. Zero where something is not there.
struct learner_demand {
  std::int64_t ranks = 1;
  std::int64_t weight_bytes = 4;  ///< of one computed-with weight; below 4, masters are kept too
  std::int64_t micro_batch_tokens = 8192;
  std::int64_t longest_sequence = 0;  ///< a longer one gets a micro-batch of its own
  std::int64_t sequences = 0;      ///< of a step, prompts that several share among them; 0: unknown
  std::int64_t shared_prompt = 0;  ///< tokens of the longest prompt that sequences share
  std::int64_t loss_chunk = 1024;  ///< rows of logits at once
  std::int64_t threads = 1;        ///< each has gradients and activations of its own
  recompute_mode recompute = recompute_mode::none;
  bool reference = false;  ///< a second, frozen model (KL term)
  bool links = false;      ///< new weights are sent to generators from two copies
  bool exact = false;      ///< a generator of its own that scores, see engine/exact_scorer.hpp
  bool gpu = false;        ///< else host memory
};

/// A generator.
struct generator_demand {
  std::int64_t weight_bytes = 4;
  std::int64_t value_bytes = 4;  ///< of a key or value in the cache
  std::int64_t slots = 0;        ///< sequences that decode together
  std::int64_t capacity = 0;     ///< tokens of one
};

struct memory_item {
  std::string purpose;
  std::int64_t bytes = 0;
  std::string setting;  ///< that makes it smaller; empty: only another model does
};

struct memory_plan {
  std::vector<memory_item> items;
  [[nodiscard]] std::int64_t total() const;
  /// A line an item, the total, and what there is: for people, before the start.
  [[nodiscard]] std::string table(std::int64_t available) const;
};

memory_plan plan_learner(const model_config& config, const learner_demand& demand);
memory_plan plan_generator(const model_config& config, const generator_demand& demand);
/// Host memory that a rank's checkpoint takes on its way to files and back, beside what the rank
/// trains with; rank 0 writes the weights, too.
memory_plan plan_checkpoint(const model_config& config, const learner_demand& demand,
                            bool writes_weights);

/// Nothing if it fits into `available` bytes; else exhausted, with both numbers and the smallest
/// change of one setting, or of several in this order, that makes it fit: learner.recompute,
/// learner.micro_batch_tokens, learner.loss_chunk, learner.ranks (up to 64).
base::status check_learner(const model_config& config, const learner_demand& demand,
                           std::int64_t available);
/// The same with policy.max_new_tokens and algorithm.groups_per_step, which make the cache.
base::status check_generator(const model_config& config, const generator_demand& demand,
                             std::int64_t available);
/// Whether `ranks_here` ranks on one host, rank 0 among them or not, fit into its `available` bytes
/// with a checkpoint of each on its way; else exhausted, with a table of one and the numbers.
base::status check_host(const model_config& config, const learner_demand& demand,
                        std::int64_t ranks_here, bool first_here, std::int64_t available);

}  // namespace quern::policy
