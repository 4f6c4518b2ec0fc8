#include "actors/workers/trainer_setup.hpp"

#include "actors/config/learner_setup.hpp"
#include "actors/config/placement.hpp"
#include "policy/engine/checkpoint.hpp"
#include "policy/engine/device.hpp"
#include "policy/engine/sharded_checkpoint.hpp"

namespace quern::actors {

policy::trainer_options trainer_options_of(const run_config& config, policy::loss_parameters loss,
                                           std::int64_t valid_tokens) {
  policy::trainer_options options;
  options.loss = loss;
  options.optimizer.learning_rate = config.learner.learning_rate;
  options.optimizer.schedule = *policy::parse_schedule(config.learner.schedule);
  options.optimizer.warmup_steps = config.learner.warmup_steps;
  options.optimizer.total_steps = config.learner.steps;
  options.optimizer.weight_decay = config.learner.weight_decay;
  options.optimizer.max_grad_norm = config.learner.max_grad_norm;
  options.pack.max_rows = config.learner.micro_batch_tokens;
  options.workers = static_cast<std::int32_t>(config.learner.threads);
  options.valid_tokens = valid_tokens;
  options.recompute = *policy::parse_recompute(config.learner.recompute);
  options.loss_chunk = config.learner.loss_chunk;
  return options;
}

base::expected<memory_share> plan_memory(const policy::model_config& model,
                                         const run_config& config, std::int32_t rank,
                                         at::Device device) {
  QUERN_TRY(const placement hosts, placement_of(config));
  policy::learner_demand demand = learner_demand_of(config);
  demand.gpu = device.is_cuda();
  const std::int64_t there = policy::memory_of(device);
  memory_share share;
  share.plan = policy::plan_learner(model, demand);
  share.available = device.is_cuda() ? there : there / hosts.ranks_beside(rank);
  QUERN_CHECK(policy::check_learner(model, demand, share.available));
  QUERN_CHECK(policy::check_host(model, demand, hosts.ranks_beside(rank), hosts.beside_first(rank),
                                 policy::memory_of(at::kCPU)));
  return share;
}

base::status load_optimizer_state(policy::trainer& trainer, const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored))
    return policy::load_optimizer(trainer.optimizer(), path);
  QUERN_CHECK(policy::load_shards(trainer.optimizer(), path));
  return trainer.gather_weights();
}

}  // namespace quern::actors
