// From a task to a prompt: which exemplars are shown, and the text. Every choice is addressed, so
// that a resumed run asks the same questions of the same archive.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/decide/exemplar_schedule.hpp"
#include "actors/decide/exemplar_selector.hpp"
#include "actors/orchestrator/prompt_length.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/status.hpp"
#include "env/prompt/prompt.hpp"
#include "storage/archive.hpp"

namespace quern::actors {

/// An exemplar as it is shown; `variant` is its number in the archive.
struct shown_exemplar {
  std::int64_t variant = 0;
  env::exemplar text;
};

struct made_prompt {
  std::string text;
  std::vector<std::int64_t> exemplars;
  base::hash128 template_hash;
};

/// Not thread-safe: it reads the archive.
class prompter {
 public:
  /// A template of env/prompts. Error: not_found, naming the nearest and the known ones.
  static base::expected<env::prompt_template> load_template(const std::string& name);

  /// Errors: no such template (naming the known ones), unknown strategy, a schedule that cannot be
  /// read, a policy without a tokenizer.
  static base::expected<prompter> make(const run_config& config, std::string device_class);

  /// Whether group `sequence` is to show exemplars (share `replay.without_exemplars_share` does
  /// not).
  [[nodiscard]] bool wants_exemplars(std::int64_t sequence) const;

  /// How many exemplars a prompt shows that shows any: replay.exemplars_shown.
  [[nodiscard]] std::int64_t exemplars_shown() const { return options_.count; }

  /// Chooses `exemplars_shown` variants of the task as of `version`, from the source that
  /// replay.exemplar_schedule names for it, or from all where that has fewer; none where all
  /// are fewer.
  [[nodiscard]] base::expected<std::vector<shown_exemplar>> choose(const book_task& task,
                                                                   const storage::archive& archive,
                                                                   std::int64_t sequence,
                                                                   std::int64_t version) const;

  /// Up to replay.seed_variants correct grammar variants of the task, drawn, to be timed here: what
  /// its prompts show before the policy has written any. Empty for a task that the grammar did not
  /// make, and where no prompt shows exemplars.
  [[nodiscard]] std::vector<std::string> seed_variants(const book_task& task) const;

  /// A prompt that is too long for the policy with its exemplars comes without them.
  [[nodiscard]] made_prompt render(const book_task& task,
                                   const std::vector<shown_exemplar>& exemplars) const;

  /// Error: invalid_argument, naming the first task whose prompt is too long even without
  /// exemplars; `render` would exceed policy.max_prompt_tokens.
  [[nodiscard]] base::status check(const std::vector<book_task>& tasks) const;

  [[nodiscard]] const std::string& device_class() const { return facts_.device_class; }

 private:
  prompter(const run_config& config, env::prompt_template form, env::prompt_facts facts,
           prompt_length length);
  std::uint64_t seed_;
  double without_share_;
  bool none_;
  std::int64_t seed_variants_;
  std::string protocol_;
  exemplar_options options_;
  exemplar_schedule schedule_;
  env::prompt_template form_;
  env::prompt_facts facts_;
  prompt_length length_;
};

}  // namespace quern::actors
