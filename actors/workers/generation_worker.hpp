// A generator without its actor: prompts in, finished completions out, new weights between two
// steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <unordered_map>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/messages.hpp"
#include "actors/workers/device_share.hpp"
#include "base/status.hpp"
#include "policy/engine/generator.hpp"
#include "policy/text/chat.hpp"
#include "policy/text/tokenizer.hpp"

namespace quern::actors {

/// One thread: LibTorch's settings are thread-local.
class generation_worker {
 public:
  /// Loads the welcomed weights. Errors: whatever reading them gives.
  static base::expected<generation_worker> make(const welcome& start, const run_config& config);

  /// Queues a group. A prompt that is longer than policy.max_prompt_tokens or leaves no room for
  /// the answer is an error that names both numbers.
  base::status submit(const generate_group& group);
  void cancel(const std::vector<sample_id>& samples);
  /// One decode step. Waits for the GPU where it is shared.
  std::vector<generated_sample> step();
  [[nodiscard]] bool idle() const { return engine_.idle(); }
  [[nodiscard]] std::size_t in_flight() const { return engine_.in_flight(); }
  /// Samples that fit into the cache at once.
  [[nodiscard]] std::int64_t slots() const { return slots_; }

  /// Reads, checks and installs announced weights; the next step samples with them.
  base::expected<weights_installed> install(const weights_ready& ready);
  [[nodiscard]] weights_installed installed() const;

 private:
  struct pending {
    epoch_id epoch = 0;
    std::string prompt_tokens;
  };
  generation_worker(policy::generator engine, policy::tokenizer text, policy::chat_format format,
                    const welcome& start, std::int64_t slots, std::int64_t max_prompt_tokens);

  policy::generator engine_;
  policy::tokenizer text_;
  policy::chat_format format_;
  std::filesystem::path weights_folder_;
  epoch_id epoch_;
  std::int64_t slots_;
  std::int64_t max_prompt_tokens_;
  std::unordered_map<sample_id, pending> pending_;
  at::Device device_ = at::kCPU;
  device_share share_;  ///< with evaluators that measure on the same GPU
};

}  // namespace quern::actors
