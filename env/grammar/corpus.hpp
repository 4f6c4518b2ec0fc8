// Makes the corpus on which a demo policy is fine-tuned: prompts and completions over many
// generated tasks, each kernel verified. A file of JSON lines, resumable at any byte, that never
// holds a held-out composition.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/file.hpp"
#include "base/status.hpp"
#include "env/grammar/canonical.hpp"
#include "env/grammar/draw.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/prompt/prompt.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// What is made. Everything but `shard` and `shards` decides the content and is hashed into the
/// file's first line.
struct corpus_plan {
  std::uint64_t seed = 1;
  std::int64_t tasks = 4000;
  int samples_per_task = 8;
  /// Share of samples with an intended mistake: what the policy's first success rate is tuned with.
  double wrong_share = 0.35;
  /// Share of tasks for which two correct variants are timed; half of their samples show both.
  double exemplar_task_share = 0.35;
  /// Protocol of the timing: "paired/1" measures, "cost_model/1" computes.
  std::string exemplar_protocol = "paired/1";
  draw_limits limits;
  held_out_spec held_out;
  task_options task;
  /// This maker does the tasks k with k % shards == shard, into a file of its own.
  int shard = 0;
  int shards = 1;
};

/// Refuses shares outside [0, 1], counts below 1, a shard that is not below `shards`.
base::status validate(const corpus_plan& plan);

/// 32 hex digits of all that decides the content.
std::string plan_hash(const corpus_plan& plan);

/// Judges kernels for a corpus: the evaluator, or a fake in tests. Called from the maker's thread.
class corpus_judge {
 public:
  virtual ~corpus_judge() = default;
  /// `protocol` empty: verify only. Errors end the maker; verdicts that judge nothing (noisy,
  /// infra_error) drop the sample.
  virtual base::expected<verdict> judge(const std::shared_ptr<const task>& subject,
                                        const std::string& source, const std::string& protocol) = 0;
};

/// What happened so far, the part of a resumed file included.
struct corpus_counts {
  std::int64_t tasks = 0;          ///< finished
  std::int64_t records = 0;        ///< written
  std::int64_t wrong = 0;          ///< of them with a verdict other than ok
  std::int64_t unexpected = 0;     ///< left out: the verdict was not the intended one
  std::int64_t dropped = 0;        ///< left out: the verdict says nothing about the kernel
  std::int64_t skipped_tasks = 0;  ///< their composition is held out
};

/// Appends to one file. The first line is {"quern_corpus":1,"plan":HASH,"shard":..,"shards":..};
/// then for each task its records
/// {"item","prompt","completion","task","composition","source_hash","verdict","style","error",
/// "exemplars":[source hashes],"scores":[..]} and a line {"task_done":k,...counts}. What stands
/// behind the last task_done is cut off when the file is opened again, so a torn tail costs one
/// task. Not thread-safe.
class corpus_maker {
 public:
  /// Creates or resumes `file`. `judge` and `form` must outlive the maker. Errors: a file of
  /// another plan or shard, a plan that does not validate.
  static base::expected<corpus_maker> open(corpus_plan plan, const prompt_template& form,
                                           prompt_facts facts, std::filesystem::path file,
                                           corpus_judge& judge);

  /// Does the next task; false when all are done.
  base::expected<bool> step();

  const corpus_counts& counts() const { return counts_; }

 private:
  corpus_maker() = default;

  corpus_plan plan_;
  const prompt_template* form_ = nullptr;
  prompt_facts facts_;
  corpus_judge* judge_ = nullptr;
  base::unique_fd file_;
  std::int64_t next_ = 0;
  corpus_counts counts_;
};

}  // namespace quern::env
