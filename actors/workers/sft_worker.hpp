// Supervised fine-tuning: from a corpus of verified kernels to a policy, by one process or by
// several ranks. Resumable, by another number of ranks, too: a checkpoint holds model, optimiser
// and the number of steps, and which samples a step takes is a function of its number.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "policy/engine/trainer.hpp"
#include "policy/text/tokenizer.hpp"

namespace quern::actors {

/// One record of a corpus, as the maker wrote it.
struct corpus_text {
  std::string prompt;
  std::string completion;
};

/// All records of the corpus files (*.jsonl) in `folder`, in order of file name and line. Errors: a
/// file of another version, no record at all.
base::expected<std::vector<corpus_text>> read_corpus(const std::filesystem::path& folder);

/// End-of-completion token of a tokenizer that Quern trains; its only special token.
inline constexpr const char* end_of_text = "<|end|>";

/// A byte-level vocabulary of `policy.vocabulary` entries, trained on the records: the text of
/// tokenizer.json.
base::expected<std::string> make_vocabulary(const run_config& config,
                                            const std::vector<corpus_text>& records);

/// The indices of the records that step `step` (from 0) takes: passes over a shuffled corpus,
/// addressed by (seed, pass).
std::vector<std::size_t> batch_of_step(std::uint64_t seed, std::int64_t step, std::int64_t batch,
                                       std::size_t records);

/// Which process of fine-tuning this is.
struct tuning_place {
  std::int32_t rank = 0;
  std::string rendezvous = {};  ///< of policy::rendezvous_options; nothing where learner.ranks is 1
  /// Losses since the last new checkpoint, the one that told of it included: limits double with
  /// each.
  std::int64_t in_vain = 0;
};

/// Trains to the end or until a signal asks any rank for a pause; rank 0 writes checkpoints below
/// RUN/checkpoints and a line a step to RUN/metrics.jsonl. Every rank reads the corpus and takes
/// its share of each batch. Exit code: done or paused. Where another rank fails, this process ends
/// by leave_group.
base::expected<int> run_fine_tuning(const run_config& config, const std::filesystem::path& corpus,
                                    const std::filesystem::path& run,
                                    const tuning_place& place = {});

}  // namespace quern::actors
