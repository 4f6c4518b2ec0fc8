// The corpus maker with a judge that knows the grammar: content, refusal, resuming.
#include "env/grammar/corpus.hpp"

#include <set>

#include "base/random.hpp"
#include "env/grammar/corpus_fixture.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/lanes/cuda/grammar/cuda_grammar.hpp"
#include "env/prompt/completion.hpp"

using namespace quern;
using namespace quern::test;

TEST_CASE("records hold what a policy learns from, and only verified kernels") {
  const auto folder = base::temp_folder::make().value();
  const auto file = folder.path() / "corpus.jsonl";
  knowing_judge judge;
  const auto plan = small_plan();
  const auto counts = make_all(plan, file, judge);
  const auto records = env::read_corpus(file).value();
  CHECK(counts.next_task == 12);
  CHECK(counts.tasks + counts.skipped_tasks == 12);
  CHECK(counts.skipped_tasks > 0);
  CHECK(counts.records == static_cast<std::int64_t>(records.size()));
  CHECK(counts.unexpected == 0);
  CHECK(judge.timed > 0);
  std::set<std::string> seen;
  int with_exemplars = 0;
  int wrong = 0;
  for (const auto& record : records) {
    const auto what = env::parse_composition(record.composition).value();
    CHECK_FALSE(is_held_out(what, plan.held_out));
    const auto parts = env::parse_completion(record.completion).value();
    CHECK(seen.insert(record.task + parts.code).second);
    CHECK(record.prompt.find(env::reference_text(what)) != std::string::npos);
    CHECK((record.verdict == "ok") == (record.error == "none"));
    CHECK(parts.design == record.style + ".");
    wrong += record.verdict == "ok" ? 0 : 1;
    CHECK(record.exemplars.size() == record.scores.size());
    if (record.exemplars.empty()) continue;
    ++with_exemplars;
    CHECK(record.exemplars.size() == 2);
    CHECK(parts.analysis.find(" leads: ") != std::string::npos);
    CHECK(record.prompt.find("1: ") != std::string::npos);
    CHECK(record.prompt.find(parts.code) == std::string::npos);
  }
  CHECK(wrong == counts.wrong);
  CHECK(wrong > 0);
  CHECK(with_exemplars > 0);
  CHECK(with_exemplars < static_cast<int>(records.size()) / 2);
}

TEST_CASE("records show as many exemplars as the plan says, which the file remembers") {
  const auto folder = base::temp_folder::make().value();
  auto plan = small_plan();
  plan.exemplar_task_share = 1;
  for (const std::int64_t shown : {1, 2, 3}) {
    knowing_judge judge;
    plan.exemplars_shown = shown;
    const auto file = folder.path() / fmt::format("{}.jsonl", shown);
    make_all(plan, file, judge);
    int with_exemplars = 0;
    for (const auto& record : records_of(file)) {
      CHECK(
          (record.exemplars.empty() || record.exemplars.size() == static_cast<std::size_t>(shown)));
      with_exemplars += record.exemplars.empty() ? 0 : 1;
    }
    CHECK(with_exemplars > 0);
  }
  knowing_judge judge;
  const auto form = small_form();
  const auto other = env::corpus_maker::open(plan, form, {}, folder.path() / "2.jsonl", judge);
  REQUIRE_FALSE(other);
  CHECK(test::contains(other.error().message, "exemplars_shown = 2, now it is 3"));
  plan.exemplars_shown = 0;
  CHECK(test::contains(env::validate(plan).error().message, "exemplars_shown is 0"));
}

TEST_CASE("a file that was torn anywhere ends up the same") {
  const auto folder = base::temp_folder::make().value();
  const auto whole = folder.path() / "whole.jsonl";
  const auto torn = folder.path() / "torn.jsonl";
  knowing_judge judge;
  auto plan = small_plan();
  plan.tasks = 6;
  plan.exemplar_task_share = 1;
  for (const double share : {0.0, 0.5}) {
    plan.comparing_share = share;
    plan.wrong_shown_share = share;
    for (const auto& file : {whole, torn})
      std::filesystem::remove(file);
    make_all(plan, whole, judge);
    const std::string want = base::read_file(whole).value();
    base::random_stream random(1, "tear");
    for (int k = 0; k < 12; ++k) {
      std::string part = want.substr(0, random.below(want.size() + 1));
      if (k % 3 == 1) part += "{\"item\":";
      // A complete record behind the last finished task is not a finished task either.
      if (k == 0) part = want.substr(0, want.rfind("{\"task_done\""));
      REQUIRE(base::write_file_atomic(torn, part));
      make_all(plan, torn, judge);
      CHECK(base::read_file(torn).value() == want);
    }
  }
}

TEST_CASE("an error is reported, nothing half is written, and the step can be repeated") {
  const auto folder = base::temp_folder::make().value();
  const auto file = folder.path() / "corpus.jsonl", want = folder.path() / "want.jsonl";
  const auto form = small_form();
  auto plan = small_plan();
  plan.tasks = 4;
  for (const double comparing : {0.0, 1.0}) {
    plan.comparing_share = comparing;
    plan.wrong_shown_share = comparing / 2;
    if (comparing > 0) plan.exemplar_task_share = 1;
    std::filesystem::remove(want);
    knowing_judge untroubled;
    make_all(plan, want, untroubled);
    for (const int fail_at : {1, 9, 13, 17, untroubled.calls}) {
      CAPTURE(fail_at);
      std::filesystem::remove(file);
      knowing_judge judge;
      judge.fail_at = fail_at;
      int errors = 0;
      {
        auto maker = env::corpus_maker::open(plan, form, {}, file, judge).value();
        for (;;) {
          const auto more = maker.step();
          if (!more) {
            ++errors;
            CHECK(more.error().message == "no runner");
            continue;
          }
          if (!*more) break;
        }
      }
      CHECK(errors == 1);
      CHECK(base::read_file(file).value() == base::read_file(want).value());
    }
  }
}

TEST_CASE("verdicts that were not intended, or say nothing, keep a sample out") {
  const auto folder = base::temp_folder::make().value();
  knowing_judge judge;
  judge.lie_every = 5;
  judge.noise_every = 7;
  auto plan = small_plan();
  plan.exemplar_task_share = 0;
  const auto counts = make_all(plan, folder.path() / "corpus.jsonl", judge);
  CHECK(counts.unexpected > 0);
  CHECK(counts.dropped > 0);
  for (const auto& record : records_of(folder.path() / "corpus.jsonl"))
    CHECK((record.verdict == "ok") == (record.error == "none"));
}

namespace {

/// Is told of kernels before it judges them.
class expecting_judge final : public knowing_judge {
 public:
  int announced_before = 0;
  [[nodiscard]] int look_ahead() const override { return 3; }
  void announce(const std::shared_ptr<const env::task>&, const std::string& source) override {
    announced_.insert(source);
  }
  base::expected<env::verdict> judge(const std::shared_ptr<const env::task>& subject,
                                     const std::string& source,
                                     const std::string& protocol) override {
    announced_before += announced_.contains(source) ? 1 : 0;
    return knowing_judge::judge(subject, source, protocol);
  }

 private:
  std::set<std::string> announced_;
};

}  // namespace

TEST_CASE("kernels are announced before they are judged, which changes nothing; lane cuda, too") {
  const auto folder = base::temp_folder::make().value();
  auto plan = small_plan();
  plan.task.lane = &env::cuda_lane;
  plan.limits = env::cuda_grammar()->limits();
  knowing_judge judge;
  make_all(plan, folder.path() / "plain.jsonl", judge);
  expecting_judge expecting;
  const auto counts = make_all(plan, folder.path() / "ahead.jsonl", expecting);
  CHECK(base::read_file(folder.path() / "ahead.jsonl").value() ==
        base::read_file(folder.path() / "plain.jsonl").value());
  CHECK(expecting.announced_before > expecting.calls * 3 / 4);
  CHECK(counts.records > 30);
  // Wrong ones that are shown, too.
  plan.exemplar_task_share = plan.comparing_share = plan.wrong_shown_share = 1;
  expecting_judge wrong;
  CHECK(make_all(plan, folder.path() / "wrong.jsonl", wrong).wrong_shown > 10);
  CHECK(wrong.announced_before > wrong.calls * 3 / 4);
  for (const auto& record : records_of(folder.path() / "ahead.jsonl"))
    CHECK(record.completion.find("cudaStream_t stream") != std::string::npos);
}

TEST_CASE("shards share the tasks between them") {
  const auto folder = base::temp_folder::make().value();
  knowing_judge judge;
  auto plan = small_plan();
  make_all(plan, folder.path() / "all.jsonl", judge);
  std::multiset<std::string> parts;
  plan.shards = 2;
  for (plan.shard = 0; plan.shard < 2; ++plan.shard) {
    const auto file = folder.path() / fmt::format("{}.jsonl", plan.shard);
    make_all(plan, file, judge);
    for (const auto& record : records_of(file))
      parts.insert(base::dump(to_json(record)));
  }
  std::multiset<std::string> all;
  for (const auto& record : records_of(folder.path() / "all.jsonl"))
    all.insert(base::dump(to_json(record)));
  CHECK(parts == all);
}

TEST_CASE(
    "a folder tells its shards and records; what was made otherwise or is there twice is named") {
  const auto folder = base::temp_folder::make().value();
  const auto& at = folder.path();
  const auto survey_error = [&] {
    const auto found = env::survey_corpus(at);
    REQUIRE_FALSE(found);
    return found.error().message;
  };
  CHECK(env::survey_corpus(at / "none").value().shards == 0);
  knowing_judge judge;
  auto plan = small_plan();
  plan.shards = 2;
  std::int64_t records = 0;
  for (plan.shard = 0; plan.shard < 2; ++plan.shard)
    records += make_all(plan, at / env::shard_file(plan.shard), judge).records;
  plan.shard = 0;
  const auto found = env::survey_corpus(at).value();
  CHECK(found.shards == 2);
  CHECK(found.records == records);
  CHECK(env::check_corpus(found, at, plan));
  auto other = plan;
  other.seed = 2;
  const auto refused = env::check_corpus(found, at, other);
  REQUIRE_FALSE(refused);
  CHECK(test::contains(refused.error().message, "corpus-000.jsonl"));
  CHECK(test::contains(refused.error().message, "seed = 1, the run has 2"));

  // A maker would not find it, and make it again.
  std::filesystem::rename(at / "corpus-001.jsonl", at / "other.jsonl");
  const auto renamed = env::check_corpus(env::survey_corpus(at).value(), at, plan);
  REQUIRE_FALSE(renamed);
  CHECK(test::contains(renamed.error().message, "other.jsonl is no file of a corpus"));
  std::filesystem::copy_file(at / "other.jsonl", at / "corpus-001.jsonl");
  CHECK(test::contains(survey_error(), "other.jsonl is shard 1 of 2, as corpus-001.jsonl"));
  std::filesystem::remove(at / "other.jsonl");
  plan.shards = 3;
  plan.shard = 2;
  make_all(plan, at / env::shard_file(2), judge);
  CHECK(test::contains(survey_error(), "corpus-002.jsonl was begun with shards = 3, "));
}

TEST_CASE("another plan, another writer and another version are refused") {
  const auto folder = base::temp_folder::make().value();
  const auto file = folder.path() / "corpus.jsonl";
  const auto form = small_form();
  knowing_judge judge;
  auto plan = small_plan();
  const auto error_of = [&](const env::corpus_plan& with) {
    const auto opened = env::corpus_maker::open(with, form, {}, file, judge);
    REQUIRE_FALSE(opened);
    return opened.error().message;
  };
  {
    auto first = env::corpus_maker::open(plan, form, {}, file, judge).value();
    CHECK(error_of(plan).find("in use") != std::string::npos);
  }
  auto other = plan;
  other.seed = 2;
  CHECK(error_of(other).find("seed = 1, now it is 2") != std::string::npos);
  env::prompt_facts elsewhere;
  elsewhere.device_class = "cpp-sse2";
  const auto opened = env::corpus_maker::open(plan, form, elsewhere, file, judge);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().message.find("device_class") != std::string::npos);
  REQUIRE(base::write_file_atomic(file, "{\"quern_corpus\":9}\n"));
  CHECK(error_of(plan).find("version 9") != std::string::npos);
  other.shard = 3;
  CHECK(error_of(other).find("shard 3 of 1") != std::string::npos);
  other = plan;
  other.wrong_share = 1.5;
  CHECK(error_of(other).find("wrong_share is 1.5") != std::string::npos);
}

TEST_CASE("a record survives JSON, and what is no record is refused with the key") {
  env::corpus_record record;
  record.item = 7;
  record.prompt = "p\n\"q\"";
  record.exemplars = {"aa", "bb"};
  record.scores = {95, 310};
  CHECK(env::corpus_record_from_json(to_json(record)).value() == record);
  const base::json whole = to_json(record);
  for (const auto& [key, unused] : whole.items()) {
    base::json broken = whole;
    broken.erase(key);
    const auto read = env::corpus_record_from_json(broken);
    REQUIRE_FALSE(read);
    CHECK(read.error().message.find(key) != std::string::npos);
  }
  CHECK_FALSE(env::corpus_record_from_json(base::json(3)));
}
