// What a run learns from recorded completions: log-probs of the best of them by the weights that it
// began and ended with. The lanes share this; completions and settings are theirs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/file.hpp"
#include "e2e/recorded_fixture.hpp"
#include "policy/engine/generator.hpp"
#include "policy/text/chat.hpp"
#include "policy/text/tokenizer.hpp"

namespace quern::test {

/// The weights of a folder, and log-probs of texts by them.
class scorer {
 public:
  explicit scorer(const std::filesystem::path& weights);

  /// Of the completion's tokens and its end, each.
  std::vector<float> log_probs(const std::string& prompt, const std::string& completion);

 private:
  policy::tokenizer text_;
  policy::chat_format format_;
  std::vector<policy::token_id> end_tokens_;
  std::optional<policy::generator> engine_;
  std::uint64_t last_id_ = 0;
};

/// The folder of the weights that the runs begin with.
std::filesystem::path first_weights();

/// Runs that play the same completions. Each group is asked for by the bare prompt of its task, and
/// each step uses the newest weights.
class learning_world {
 public:
  using make_candidates =
      std::function<std::vector<recorded_candidate>(const actors::task_book& tasks)>;

  /// `settings`: KEY=VALUE of every run. `make` is called once.
  learning_world(std::vector<std::string> settings, const make_candidates& make);

  [[nodiscard]] const std::vector<recorded_candidate>& candidates() const { return candidates_; }

  /// A run of `steps` to its end, with `more` settings; its folder. Fails the test where the run
  /// fails, the law does not hold or a sample has another text than the seed chooses.
  [[nodiscard]] std::filesystem::path run(const std::string& name, std::int64_t steps,
                                          const std::vector<std::string>& more = {}) const;

  /// By how much the run of `steps` in `run` raised the log-prob of a best completion, in nats: the
  /// mean over the best ones.
  [[nodiscard]] double gain(const std::filesystem::path& run, std::int64_t steps) const;

 private:
  [[nodiscard]] double best_by(const std::filesystem::path& weights) const;

  base::temp_folder folder_;
  std::filesystem::path recorded_;
  std::vector<std::string> settings_;
  actors::run_config config_;
  std::optional<actors::task_book> tasks_;
  std::vector<recorded_candidate> candidates_;
};

}  // namespace quern::test
