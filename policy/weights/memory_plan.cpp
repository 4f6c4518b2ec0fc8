#include "policy/weights/memory_plan.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include <fmt/format.h>

#include "base/text.hpp"
#include "policy/weights/catalogue.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

constexpr std::array<std::string_view, 3> recompute_texts{"none", "mlp", "full"};
constexpr std::int64_t float_bytes = 4;
constexpr std::int64_t fewest_micro_batch_tokens = 256;
constexpr std::int64_t fewest_loss_rows = 64;
constexpr std::int64_t most_ranks = 64;
/// On a GPU: code of kernels, workspaces of the product libraries, gaps between blocks. Measured:
/// half of it, for both shapes that were (tests/policy/weights/memory_plan.cpp).
constexpr std::int64_t library_bytes = std::int64_t{1} << 30;

std::string show_bytes(std::int64_t bytes) {
  return base::human_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)));
}

/// Bytes that one block keeps for a row, by what may be computed again.
struct row_bytes {
  std::int64_t input = 0, attention_half = 0, mlp_half = 0, passing = 0;
};

/// `e`: bytes of an element; norms and log-sums are float32.
row_bytes bytes_of_row(const model_config& c, std::int64_t e) {
  const std::int64_t d = c.hidden_size, q = c.q_size(), kv = c.kv_size(), i = c.intermediate_size;
  row_bytes v;
  v.input = e * d;
  v.attention_half = e * (d + 2 * (q + 2 * kv) + q + d) +
                     float_bytes * (1 + c.heads + (c.qk_norm() ? c.heads + c.kv_heads : 0));
  v.mlp_half = e * (d + 3 * i) + float_bytes;
  // Of one block at a time: gradients on their way, the last hidden states.
  v.passing = e * (4 * d + std::max(2 * i, q + 2 * kv) + std::max(i, q) + q + 2 * kv) + float_bytes;
  return v;
}

std::int64_t activation_bytes(const model_config& c, recompute_mode mode, std::int64_t element) {
  const row_bytes v = bytes_of_row(c, element);
  const std::int64_t kept = v.input + (mode == recompute_mode::full ? 0 : v.attention_half) +
                            (mode == recompute_mode::none ? v.mlp_half : 0);
  const std::int64_t again = (mode == recompute_mode::full ? v.attention_half : 0) +
                             (mode == recompute_mode::none ? 0 : v.mlp_half);
  return c.layers * kept + again + v.passing;
}

/// Buffers are made an eighth larger than asked for, so that they need not grow at each batch.
std::int64_t with_reserve(std::int64_t values) {
  return values + values / 8;
}

std::int64_t rows_of(const learner_demand& d) {
  return std::max(d.micro_batch_tokens, d.longest_sequence);
}

/// Of a micro-batch, where completions are half as long as they may be.
std::int64_t segments_of(const learner_demand& d) {
  const std::int64_t rows = rows_of(d),
                     longest = d.longest_sequence > 0 ? d.longest_sequence : rows,
                     half = std::max<std::int64_t>(1, (longest - d.shared_prompt) / 2),
                     fitting = (rows + half - 1) / half;
  return d.sequences > 0 ? std::min(fitting, d.sequences) : fitting;
}

/// ATen's fused operator at the peak of its backward pass: q, k and v by row with what is shared
/// beside every user's own, and gradients of the three; those of k and v for each query head before
/// they are summed over groups; dq in float32, 128 rows of room behind each segment.
std::int64_t fused_attention_bytes(const model_config& c, const learner_demand& d) {
  const std::int64_t rows = rows_of(d), segments = segments_of(d),
                     keys = rows + segments * d.shared_prompt, q = c.q_size(), kv = c.kv_size(),
                     block = c.head_dim <= 128 ? 32 : 64,
                     dim = (c.head_dim + block - 1) / block * block,
                     by_head = c.heads == c.kv_heads ? 0 : 2 * keys * q;
  return d.weight_bytes * (2 * rows * q + 4 * keys * kv + by_head) +
         float_bytes * (rows + 128 * segments) * c.heads * (dim + 1);
}

/// Attention in tiles, in float32: two tiles of scores (on a GPU a whole segment, whose prompt is
/// not shared), the output by head, and its product with its gradient; in bfloat16 wide copies of
/// all that goes in and comes out instead.
std::int64_t tiled_attention_bytes(const model_config& c, const learner_demand& d) {
  const std::int64_t rows = rows_of(d),
                     longest = d.longest_sequence > 0 ? d.longest_sequence : rows,
                     tile = d.gpu ? longest * c.heads / c.kv_heads : 128, q = c.q_size(),
                     copies = d.weight_bytes < float_bytes ? 2 * (q + 2 * c.kv_size()) : q;
  return float_bytes * with_reserve(2 * tile * longest + rows * (q + c.heads + copies));
}

std::int64_t attention_bytes(const model_config& c, const learner_demand& d) {
  const bool fused = d.gpu && d.weight_bytes < float_bytes && c.head_dim % 8 == 0;
  return fused ? fused_attention_bytes(c, d) : tiled_attention_bytes(c, d);
}

/// float32, and once more as the model's backward pass takes it.
std::int64_t hidden_gradient_bytes(const model_config& c, const learner_demand& d) {
  const std::int64_t values = rows_of(d) * c.hidden_size;
  return float_bytes * with_reserve(values) +
         (d.weight_bytes < float_bytes ? d.weight_bytes * values : 0);
}

/// float32 in and out, rounded on the way back.
std::int64_t logit_bytes(const model_config& c, const learner_demand& d) {
  const std::int64_t rows = d.loss_chunk, width = c.hidden_size;
  return with_reserve(rows * ((c.vocab_size + width) * float_bytes + width * d.weight_bytes)) +
         (d.weight_bytes < float_bytes ? rows * c.vocab_size * d.weight_bytes : 0);
}

/// Weights, those of the next version, the cache of its slots (policy/engine/exact_scorer.hpp).
std::int64_t scorer_bytes(const model_config& c, const learner_demand& d, std::int64_t elements) {
  return elements * (float_bytes + d.weight_bytes) +
         scorer_slots * d.longest_sequence * c.layers * 2 * c.kv_size() * float_bytes;
}

/// Weights, and one block without what only a backward pass needs.
std::int64_t reference_bytes(const model_config& c, const learner_demand& d,
                             std::int64_t elements) {
  const row_bytes v = bytes_of_row(c, d.weight_bytes);
  return elements * d.weight_bytes +
         with_reserve(rows_of(d) * (v.input + v.attention_half + v.mlp_half +
                                    2 * c.hidden_size * d.weight_bytes));
}

std::int64_t parameters_of(const model_config& config, std::int64_t ranks) {
  layout place;
  place.ranks = static_cast<std::int32_t>(ranks);
  const auto made = make_catalogue(config, weight_dtype::f32, place);
  return made ? made->elements : 0;
}

/// The next smaller demand by one setting, or nothing.
bool shrink(learner_demand& demand, std::vector<std::string>& changes,
            const std::function<bool(const learner_demand&)>& fits) {
  const auto tell = [&](std::string_view key, const std::string& value) {
    changes.push_back(fmt::format("{}={}", key, value));
  };
  for (const recompute_mode mode : {recompute_mode::mlp, recompute_mode::full}) {
    if (mode <= demand.recompute) continue;
    learner_demand next = demand;
    next.recompute = mode;
    if (!fits(next) && mode != recompute_mode::full) continue;
    demand = next;
    tell("learner.recompute", std::string(to_string(mode)));
    break;
  }
  if (fits(demand)) return true;
  const std::int64_t tokens = demand.micro_batch_tokens;
  while (!fits(demand) && demand.micro_batch_tokens / 2 >=
                              std::max(fewest_micro_batch_tokens, demand.longest_sequence))
    demand.micro_batch_tokens /= 2;
  if (demand.micro_batch_tokens != tokens)
    tell("learner.micro_batch_tokens", std::to_string(demand.micro_batch_tokens));
  const std::int64_t chunk = demand.loss_chunk;
  while (!fits(demand) && demand.loss_chunk / 2 >= fewest_loss_rows)
    demand.loss_chunk /= 2;
  if (demand.loss_chunk != chunk) tell("learner.loss_chunk", std::to_string(demand.loss_chunk));
  const std::int64_t ranks = demand.ranks;
  while (!fits(demand) && demand.ranks * 2 <= most_ranks)
    demand.ranks *= 2;
  if (demand.ranks != ranks) tell("learner.ranks", std::to_string(demand.ranks));
  return fits(demand);
}

}  // namespace

std::string_view to_string(recompute_mode mode) {
  return recompute_texts[static_cast<std::size_t>(mode)];
}

base::expected<recompute_mode> parse_recompute(std::string_view text) {
  for (std::size_t i = 0; i < recompute_texts.size(); ++i)
    if (recompute_texts[i] == text) return static_cast<recompute_mode>(i);
  return fail(errc::invalid_argument, "unknown recompute mode '{}'; known: none, mlp, full", text);
}

std::int64_t memory_plan::total() const {
  std::int64_t sum = 0;
  for (const memory_item& item : items)
    sum += item.bytes;
  return sum;
}

std::string memory_plan::table(std::int64_t available) const {
  std::string text;
  for (const memory_item& item : items)
    if (item.bytes > 0)
      text += fmt::format("{:<44}{:>12}  {}\n", item.purpose, show_bytes(item.bytes), item.setting);
  return text +
         fmt::format("{:<44}{:>12}  of {}\n", "in all", show_bytes(total()), show_bytes(available));
}

memory_plan plan_learner(const model_config& config, const learner_demand& demand) {
  const std::int64_t elements = parameters_of(config, demand.ranks),
                     shard = elements / demand.ranks, rows = rows_of(demand),
                     masters = demand.ranks > 1 || demand.weight_bytes < float_bytes ? shard : 0;
  memory_plan plan;
  plan.items = {
      {"weights", elements * demand.weight_bytes, ""},
      {"gradients", demand.threads * elements * float_bytes,
       demand.threads > 1 ? "learner.threads" : ""},
      {"gradients of the own shard", demand.ranks > 1 ? shard * float_bytes : 0, "learner.ranks"},
      {"master weights", masters * float_bytes, "learner.ranks"},
      {"moments", 2 * shard * float_bytes, "learner.ranks"},
      {fmt::format("activations of {} tokens, recompute {}", rows, to_string(demand.recompute)),
       demand.threads *
           with_reserve(rows * activation_bytes(config, demand.recompute, demand.weight_bytes)),
       "learner.recompute, learner.micro_batch_tokens"},
      {"gradients of the last hidden states",
       demand.threads * hidden_gradient_bytes(config, demand), "learner.micro_batch_tokens"},
      {"attention of one layer", demand.threads * attention_bytes(config, demand),
       "learner.micro_batch_tokens"},
      {fmt::format("logits of {} rows", demand.loss_chunk),
       demand.threads * logit_bytes(config, demand), "learner.loss_chunk"},
      {"rotation of positions",
       demand.threads * config.max_positions * config.head_dim * float_bytes, ""},
      {"reference", demand.reference ? reference_bytes(config, demand, elements) : 0,
       "algorithm.preset"},
      {"copies that links send from", demand.links ? 2 * elements * demand.weight_bytes : 0,
       "actors.weights"},
      {"passes like the generator's", demand.exact ? scorer_bytes(config, demand, elements) : 0,
       "actors.exact"},
      {"libraries of the GPU", demand.gpu ? library_bytes : 0, ""},
  };
  return plan;
}

memory_plan plan_checkpoint(const model_config& config, const learner_demand& demand,
                            bool writes_weights) {
  const std::int64_t elements = parameters_of(config, demand.ranks),
                     shard = elements / demand.ranks;
  memory_plan plan;
  plan.items = {
      {"weights of a checkpoint",
       writes_weights ? elements * static_cast<std::int64_t>(size_of(config.dtype)) : 0, ""},
      {"master weights and moments of a checkpoint", 3 * shard * float_bytes, "learner.ranks"},
  };
  return plan;
}

memory_plan plan_generator(const model_config& config, const generator_demand& demand) {
  const std::int64_t elements = parameters_of(config, 1);
  memory_plan plan;
  plan.items = {
      {"weights", elements * demand.weight_bytes, ""},
      {"weights of the next version", elements * demand.weight_bytes, ""},
      {fmt::format("keys and values of {} x {} tokens", demand.slots, demand.capacity),
       demand.slots * demand.capacity * config.layers * 2 * config.kv_size() * demand.value_bytes,
       "policy.max_new_tokens, algorithm.groups_per_step"},
  };
  return plan;
}

base::status check_learner(const model_config& config, const learner_demand& demand,
                           std::int64_t available) {
  const auto fits = [&](const learner_demand& one) {
    return plan_learner(config, one).total() <= available;
  };
  if (fits(demand)) return {};
  const memory_plan plan = plan_learner(config, demand);
  learner_demand smaller = demand;
  std::vector<std::string> changes;
  const bool possible = shrink(smaller, changes, fits);
  return fail(errc::exhausted, "a learner needs {}, {} is there:\n{}{}", show_bytes(plan.total()),
              show_bytes(available), plan.table(available),
              possible ? fmt::format("it fits with {}", fmt::join(changes, " "))
                       : std::string("no setting makes it fit: use a smaller model"));
}

base::status check_host(const model_config& config, const learner_demand& demand,
                        std::int64_t ranks_here, bool first_here, std::int64_t available) {
  memory_plan plan = plan_checkpoint(config, demand, first_here);
  const std::int64_t checkpoints =
      plan.total() +
      (ranks_here - 1) * plan_checkpoint(config, demand, /*writes_weights=*/false).total();
  const std::int64_t training = demand.gpu ? 0 : ranks_here * plan_learner(config, demand).total();
  if (checkpoints + training <= available) return {};
  if (training > 0) plan.items.push_back({"training", training / ranks_here, ""});
  return fail(errc::exhausted,
              "{} needs {} of host memory while a checkpoint is made, {} is there; {}:\n{}{} "
              "(learner.hosts), or use a smaller model",
              ranks_here == 1 ? "a learner's rank"
                              : fmt::format("a host with {} ranks of the learner", ranks_here),
              show_bytes(checkpoints + training), show_bytes(available),
              first_here ? "rank 0" : "each of them", plan.table(available),
              ranks_here == 1 ? "let more ranks share the model, on more hosts"
                              : "let fewer ranks live there");
}

base::status check_generator(const model_config& config, const generator_demand& demand,
                             std::int64_t available) {
  const memory_plan plan = plan_generator(config, demand);
  if (plan.total() <= available) return {};
  generator_demand smaller = demand;
  while (smaller.slots > 1 && plan_generator(config, smaller).total() > available)
    --smaller.slots;
  const bool possible = plan_generator(config, smaller).total() <= available;
  return fail(errc::exhausted, "a generator needs {}, {} is there:\n{}{}", show_bytes(plan.total()),
              show_bytes(available), plan.table(available),
              possible ? fmt::format("there is room for {} sequences: lower "
                                     "algorithm.groups_per_step or policy.max_new_tokens",
                                     smaller.slots)
                       : std::string("not even one sequence fits: use a smaller model"));
}

}  // namespace quern::policy
