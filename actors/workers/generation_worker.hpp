// A generator without its actor: prompts in, finished completions out, new weights between two
// steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/messages.hpp"
#include "actors/workers/device_share.hpp"
#include "actors/workers/own_address.hpp"
#include "actors/workers/weight_inbox.hpp"
#include "base/clock.hpp"
#include "base/status.hpp"
#include "policy/engine/generator.hpp"
#include "policy/text/chat.hpp"
#include "policy/text/tokenizer.hpp"

namespace quern::actors {

/// One thread: LibTorch's settings are thread-local.
class generation_worker {
 public:
  /// Loads the welcomed weights. `told`: of weights that have come, on another thread. Errors:
  /// whatever reading them gives.
  static base::expected<generation_worker> make(const welcome& start, const run_config& config,
                                                const own_address& here, weight_fetcher::news told);

  /// Queues a group. A prompt that is longer than policy.max_prompt_tokens or leaves no room for
  /// the answer is an error that names both numbers; so is a recorded completion that is longer
  /// than policy.max_new_tokens.
  base::status submit(const generate_group& group);
  void cancel(const std::vector<sample_id>& samples);
  /// One decode step. Waits for the GPU where it is shared.
  std::vector<generated_sample> step();
  [[nodiscard]] bool idle() const { return engine_.idle(); }
  [[nodiscard]] std::size_t in_flight() const { return engine_.in_flight(); }
  /// Since the beginning: tokens sampled, and time waited for a GPU that is shared.
  [[nodiscard]] std::int64_t tokens() const { return engine_.counters().sampled_tokens; }
  [[nodiscard]] base::nanoseconds_t device_wait_ns() const { return share_.waited_ns(); }
  /// What else it did, since the beginning.
  [[nodiscard]] generator_work work() const;
  /// Samples that fit into the cache at once.
  [[nodiscard]] std::int64_t slots() const { return slots_; }

  /// Weights that may be installed once they are here. Installs them if they are, and the next step
  /// samples with them. Nothing: they are not here yet, or were installed before.
  base::expected<std::optional<weights_installed>> install(const weights_ready& ready);
  /// The same for what has come since it was announced.
  base::expected<std::optional<weights_installed>> install_arrived();
  [[nodiscard]] weights_installed installed() const;

 private:
  struct pending {
    incarnation_id incarnation = 0;
    std::string prompt_tokens;
    bool recorded = false;  ///< it ends where its text does, and is never cut
  };
  /// Tokens of the recorded completion of each sample; empty where the group is sampled.
  base::expected<std::vector<std::vector<policy::token_id>>> given_tokens(
      const generate_group& group) const;
  void leave_device();
  generation_worker(policy::generator engine, policy::tokenizer text, policy::chat_format format,
                    const welcome& start, std::int64_t slots, std::int64_t max_prompt_tokens);

  policy::generator engine_;
  policy::tokenizer text_;
  policy::chat_format format_;
  std::vector<policy::token_id> end_tokens_;
  incarnation_id incarnation_;
  std::int64_t slots_;
  std::int64_t max_prompt_tokens_;
  std::int64_t installs_ = 0;
  base::nanoseconds_t install_ns_ = 0;
  std::unordered_map<sample_id, pending> pending_;
  at::Device device_ = at::kCPU;
  device_share share_;  ///< with evaluators that measure on the same GPU
  /// Last, so that it ends before what it writes to.
  std::unique_ptr<weight_fetcher> weights_;
};

}  // namespace quern::actors
