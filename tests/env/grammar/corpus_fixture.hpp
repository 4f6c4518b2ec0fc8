// Corpora for tests: a small plan, and a judge that knows the grammar in place of compilers.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "env/grammar/corpus.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "support/test.hpp"

namespace quern::test {

inline constexpr std::string_view form_text =
    "quern_prompt: 1\nname: small\n---\n{{task.reference}}\n{{#exemplars}}\n{{exemplar.number}}: "
    "{{exemplar.score}}\n{{exemplar.code}}\n{{/exemplars}}\nWrite.\n";

inline env::prompt_template small_form() {
  return env::prompt_template::parse(form_text).value();
}

/// Right is what the supply calls right. Can be told to answer something else for some calls.
class knowing_judge : public env::corpus_judge {
 public:
  int calls = 0;
  int timed = 0;
  int fail_at = -1;     ///< this call ends in an error
  int lie_every = 0;    ///< every so many calls the verdict is the opposite
  int noise_every = 0;  ///< every so many calls it is infra_error

  base::expected<env::verdict> judge(const std::shared_ptr<const env::task>& subject,
                                     const std::string& source,
                                     const std::string& protocol) override {
    ++calls;
    if (calls == fail_at) return base::fail(base::errc::unavailable, "no runner");
    env::verdict made;
    if (noise_every > 0 && calls % noise_every == 0) {
      made.kind = env::verdict_kind::infra_error;
      return made;
    }
    remember(*subject);
    bool right = right_.contains(source);
    if (lie_every > 0 && calls % lie_every == 0) right = !right;
    made.kind = right ? env::verdict_kind::ok : env::verdict_kind::wrong_value;
    if (!protocol.empty()) {
      ++timed;
      made.speedup_e2 = static_cast<std::int64_t>(100 + source.size() % 300);
    }
    return made;
  }

 private:
  void remember(const env::task& subject) {
    if (subject.name == known_) return;
    known_ = subject.name;
    right_.clear();
    const env::composition_probe probe(env::composition_of_reference(subject.reference).value());
    const env::variant_supply supply(probe, *subject.lane->grammar());
    for (const auto& variant : supply.correct())
      right_.insert(variant.source);
  }

  std::string known_;
  std::set<std::string> right_;
};

inline std::vector<env::corpus_record> records_of(const std::filesystem::path& file) {
  return env::read_corpus(file).value();
}

inline env::corpus_plan small_plan() {
  env::corpus_plan plan;
  plan.task.lane = &env::cpp_lane;
  plan.tasks = 12;
  plan.samples_per_task = 6;
  plan.exemplar_task_share = 0.5;
  plan.held_out.per_mille = 150;
  return plan;
}

inline env::corpus_counts make_all(const env::corpus_plan& plan, const std::filesystem::path& file,
                                   knowing_judge& judge) {
  const auto form = small_form();
  auto maker = env::corpus_maker::open(plan, form, {}, file, judge).value();
  while (maker.step().value()) {
  }
  return maker.counts();
}

}  // namespace quern::test
