// Makes the corpus on which a demo policy is fine-tuned: prompts and completions over many
// generated tasks, each kernel verified. It never holds a held-out composition.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "base/status.hpp"
#include "env/grammar/canonical.hpp"
#include "env/grammar/completion_text.hpp"
#include "env/grammar/corpus_file.hpp"
#include "env/grammar/draw.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/prompt/prompt.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// What is made.
struct corpus_plan {
  std::uint64_t seed = 1;
  std::int64_t tasks = 4000;
  int samples_per_task = 8;
  /// Share of samples with an intended mistake: what the policy's first success rate is tuned with.
  double wrong_share = 0.35;
  /// Share of tasks of which correct variants are scored; every other sample of these shows
  /// `exemplars_shown` of them.
  double exemplar_task_share = 0.35;
  std::int64_t exemplars_shown = 2;
  /// Share of the samples that show exemplars whose answer follows from them (comparison.hpp); it
  /// is right. The answer to the others is drawn independently of what they show. Several of a task
  /// may have the same answer, after other kernels or after the same in another order. Where the
  /// scored kernels are too much alike to compare, or no draw is a new comparison of them, a sample
  /// shows none. Which records compare then depends on measured times: a corpus that is resumed or
  /// made again is the same only where its scores are.
  double comparing_share = 0;
  /// Of the comparing ones: those that show the best that is known.
  double best_shown_share = 0.15;
  /// Of the comparing ones: those that show a wrong kernel with its verdict in the place of a
  /// slower one. None does where exemplars_shown is 1.
  double wrong_shown_share = 0;
  /// Where comparing_share is above 0: variants that are scored beyond exemplars_shown.
  std::int64_t spare_scores = 4;
  /// How they are scored: a protocol of the evaluator. "paired/1" measures, "cost_model/1"
  /// computes.
  std::string exemplar_protocol = "paired/1";
  draw_limits limits;
  held_out_spec held_out;
  task_options task;
  /// This maker does the tasks k with k % shards == shard, into a file of its own. A corpus that
  /// was begun keeps its `shards`.
  int shard = 0;
  int shards = 1;
};

/// Refuses shares outside [0, 1], counts and `exemplars_shown` below 1, a shard that is not below
/// `shards`.
base::status validate(const corpus_plan& plan);

/// All of a plan and its template that decides the content, for the file's header.
base::json header_of(const corpus_plan& plan, const prompt_template& form);

/// What the files of a folder say of their corpus.
struct corpus_survey {
  int shards = 0;            ///< 0: none was begun
  base::json header;         ///< of the first shard; null: none was begun
  std::string first;         ///< file of that header
  std::string foreign;       ///< a file that no maker of this corpus writes; empty: none
  std::int64_t records = 0;  ///< whole lines: a torn end does not count
};

/// Name of the file of a shard.
std::string shard_file(int shard);

/// Looks at the *.jsonl files of `folder`; none where it is not there. Errors: two files are the
/// same shard, or are of different corpora; they name both.
base::expected<corpus_survey> survey_corpus(const std::filesystem::path& folder);

/// A maker would refuse what was begun with another plan; says so before it is started. Looks at
/// what a person chooses; corpus_maker::open looks at everything.
base::status check_corpus(const corpus_survey& found, const std::filesystem::path& folder,
                          const corpus_plan& plan);

/// Judges kernels for a corpus: the evaluator, or a fake in tests. Called from the maker's thread.
class corpus_judge {
 public:
  virtual ~corpus_judge() = default;
  /// `protocol` empty: verify only. An error ends the maker's step; a verdict that judges nothing
  /// (noisy, infra_error) drops the sample.
  virtual base::expected<verdict> judge(const std::shared_ptr<const task>& subject,
                                        const std::string& source, const std::string& protocol) = 0;

  /// Tasks beyond the present one whose kernels are announced.
  [[nodiscard]] virtual int look_ahead() const { return 0; }
  /// A kernel that will probably be judged before long: it may be compiled meanwhile.
  virtual void announce(const std::shared_ptr<const task>&, const std::string& /*source*/) {}
};

/// Works through a plan, one task at a time. Not thread-safe.
class corpus_maker {
 public:
  /// Creates or resumes `file`. `form` and `judge` must outlive the maker. Errors: those of
  /// validate and of corpus_file::open.
  static base::expected<corpus_maker> open(corpus_plan plan, const prompt_template& form,
                                           prompt_facts facts, const std::filesystem::path& file,
                                           corpus_judge& judge);

  /// Does the next task; false when all are done. After an error the same task is tried again.
  base::expected<bool> step();

  const corpus_counts& counts() const { return file_.counts(); }

 private:
  struct work;
  corpus_maker(corpus_plan plan, const prompt_template& form, prompt_facts facts, corpus_file file,
               corpus_judge& judge);
  base::status begin_next();
  void announce(const work& of);
  base::expected<std::vector<scored_variant>> score_exemplars(work& at);
  base::status add_sample(work& at, int sample, const std::vector<scored_variant>& scored);
  /// Whether the sample was added.
  base::expected<bool> add_comparing(work& at, std::int64_t item,
                                     std::span<const scored_variant> scored);
  /// Whether the sample is to show a wrong kernel, then which.
  [[nodiscard]] base::random_stream wrong_draws(std::int64_t item) const;
  /// A wrong kernel for the sample to show; none: it is to show none, or no draw was wrong.
  base::expected<std::optional<scored_variant>> draw_wrong(work& at, std::int64_t item);
  /// The record of a kernel that was judged, but for what it shows and says.
  [[nodiscard]] corpus_record record_of(const work& at, std::int64_t item,
                                        const kernel_variant& variant) const;
  /// Adds the prompt with these exemplars, and the completion with this analysis.
  void add_record(work& at, corpus_record record, kernel_variant variant,
                  std::span<const scored_variant> shown, std::string analysis);
  /// Whether a sample that shows exemplars is to compare them.
  [[nodiscard]] bool compares(std::int64_t item) const;
  /// Correct variants of a task that are to be scored.
  [[nodiscard]] std::int64_t wanted_scores() const {
    return plan_.exemplars_shown + (plan_.comparing_share > 0 ? plan_.spare_scores : 0);
  }

  corpus_plan plan_;
  const prompt_template* form_;
  prompt_facts facts_;
  corpus_file file_;
  corpus_judge* judge_;
  /// Begun and not finished, in order; null: held out.
  std::deque<std::shared_ptr<work>> begun_;
  std::int64_t next_ = 0;  ///< index of the task that is begun next
};

}  // namespace quern::env
