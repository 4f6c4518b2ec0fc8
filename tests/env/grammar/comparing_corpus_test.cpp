// Comparing records of a corpus: which kernels they show, what their answers say, and how a file
// goes on.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "env/grammar/comparison.hpp"
#include "env/grammar/corpus_fixture.hpp"
#include "env/prompt/completion.hpp"

using namespace quern;
using namespace quern::test;

TEST_CASE(
    "the answer of a comparing record improves on what it shows, or nothing better is known") {
  const auto folder = base::temp_folder::make().value();
  auto plan = small_plan();
  plan.tasks = 60;
  plan.exemplar_task_share = 1;
  // Scores of the fake follow from the length of a text.
  const auto score = [](const std::string& code) {
    return static_cast<std::int64_t>(100 + code.size() % 300);
  };
  for (const double share : {0.0, 1.0}) {
    CAPTURE(share);
    plan.comparing_share = share;
    knowing_judge judge;
    const auto file = folder.path() / fmt::format("{}.jsonl", share);
    const auto counts = make_all(plan, file, judge);
    int shown = 0, improves = 0, told = 0, none_faster = 0;
    for (const auto& record : records_of(file)) {
      if (record.exemplars.empty()) continue;
      ++shown;
      REQUIRE(record.exemplars.size() == 2);
      const auto parts = env::parse_completion(record.completion).value();
      CHECK(std::ranges::find(record.exemplars, record.source_hash) == record.exemplars.end());
      CHECK(parts.design == record.style + ".");
      const auto best = static_cast<double>(std::ranges::max(record.scores));
      const bool is_better = static_cast<double>(score(parts.code)) >= env::least_gain * best;
      improves += is_better ? 1 : 0;
      if (!test::contains(parts.analysis, " leads, ")) continue;
      ++told;
      CHECK(record.verdict == "ok");
      const bool none = test::contains(parts.analysis, "None faster is known");
      none_faster += none ? 1 : 0;
      CHECK(is_better != none);
    }
    CHECK(shown > 40);
    // Without it an answer is drawn whatever is shown: the control.
    CHECK(told == (share > 0 ? shown : 0));
    CHECK((share > 0) == (improves > shown * 7 / 10));
    CHECK((share > 0) == (none_faster > 0));
    CHECK(none_faster < shown * 3 / 10);
    CHECK(counts.showing == shown);
    CHECK(counts.comparing == told);
    CHECK(counts.best_shown == none_faster);
  }
}

TEST_CASE("one answer may follow from several comparisons of a task, each of them once") {
  const auto folder = base::temp_folder::make().value();
  auto plan = small_plan();
  plan.samples_per_task = 16;
  plan.exemplar_task_share = 1;
  plan.comparing_share = 1;
  knowing_judge judge;
  make_all(plan, folder.path() / "corpus.jsonl", judge);
  std::set<std::vector<std::string>> comparisons;
  std::map<std::string, int> answers;
  int comparing = 0;
  for (const auto& record : records_of(folder.path() / "corpus.jsonl")) {
    if (record.exemplars.empty()) continue;
    ++comparing;
    auto whole = record.exemplars;
    whole.push_back(record.source_hash);
    CHECK(comparisons.insert(std::move(whole)).second);
    ++answers[record.task + record.source_hash];
  }
  REQUIRE(comparing > 40);
  CHECK(static_cast<int>(answers.size()) < comparing);
}

TEST_CASE("comparing records show wrong kernels with their verdict, as often as the plan says") {
  const auto folder = base::temp_folder::make().value();
  auto plan = small_plan();
  plan.tasks = 60;
  plan.exemplar_task_share = 1;
  plan.comparing_share = 1;
  for (const double share : {0.0, 0.4, 1.0}) {
    CAPTURE(share);
    plan.wrong_shown_share = share;
    knowing_judge judge;
    const auto file = folder.path() / fmt::format("{}.jsonl", share);
    const auto counts = make_all(plan, file, judge);
    int comparing = 0, wrong = 0;
    std::set<std::string> right_ones, wrong_ones;
    std::map<std::ptrdiff_t, int> places;
    for (const auto& record : records_of(file)) {
      if (record.exemplars.empty()) continue;
      ++comparing;
      REQUIRE(record.exemplars.size() == 2);
      CHECK(record.verdict == "ok");
      right_ones.insert(record.source_hash);
      const auto analysis = env::parse_completion(record.completion).value().analysis;
      const auto zero = std::ranges::find(record.scores, 0);
      const bool shows = zero != record.scores.end();
      CHECK(test::contains(analysis, "wrong_value") == shows);
      CHECK(test::contains(record.prompt, "wrong_value") == shows);
      if (!shows) continue;
      ++wrong;
      const auto place = zero - record.scores.begin();
      ++places[place];
      wrong_ones.insert(record.exemplars[static_cast<std::size_t>(place)]);
      CHECK(test::contains(analysis, fmt::format("{} leads, ", 2 - place)));
      CHECK(test::contains(analysis, fmt::format("{} is wrong_value.", place + 1)));
      CHECK(test::contains(record.prompt, fmt::format("{}: 0.00 (wrong_value)\n", place + 1)));
    }
    REQUIRE(comparing > 40);
    CHECK(counts.wrong_shown == wrong);
    CHECK(std::abs(static_cast<double>(wrong) / comparing - share) < 0.15);
    CHECK((share > 0) == (wrong > 0));
    CHECK((share > 0) == (places[0] > 5 && places[1] > 5));
    std::vector<std::string> both;
    std::ranges::set_intersection(right_ones, wrong_ones, std::back_inserter(both));
    CHECK(both.empty());
  }
  // One is shown: it is right.
  plan.exemplars_shown = 1;
  knowing_judge judge;
  CHECK(make_all(plan, folder.path() / "one.jsonl", judge).wrong_shown == 0);
  plan.wrong_shown_share = -0.1;
  CHECK(test::contains(env::validate(plan).error().message, "wrong_shown_share is -0.1"));
}

TEST_CASE(
    "where nothing is compared, or one is shown, no byte follows from the share of wrong ones") {
  const auto folder = base::temp_folder::make().value();
  const auto file = folder.path() / "corpus.jsonl";
  for (const std::int64_t shown : {1, 2}) {
    std::vector<std::string> texts;
    for (const double share : {0.0, 0.5}) {
      auto plan = small_plan();
      plan.exemplar_task_share = 1;
      plan.comparing_share = shown == 1 ? 1 : 0;
      plan.exemplars_shown = shown;
      plan.wrong_shown_share = share;
      knowing_judge judge;
      std::filesystem::remove(file);
      make_all(plan, file, judge);
      texts.push_back(base::read_file(file).value());
    }
    CHECK(texts[0] == texts[1]);
  }
}

TEST_CASE("answers that do not compare are as often wrong beside comparing ones as without") {
  const auto folder = base::temp_folder::make().value();
  auto plan = small_plan();
  plan.tasks = 150;
  plan.exemplar_task_share = 1;
  std::map<double, double> wrong_share;
  for (const double share : {0.0, 0.5}) {
    plan.comparing_share = share;
    knowing_judge judge;
    const auto file = folder.path() / fmt::format("{}.jsonl", share);
    make_all(plan, file, judge);
    double drawn = 0, wrong = 0;
    for (const auto& record : records_of(file)) {
      const auto parts = env::parse_completion(record.completion).value();
      if (record.exemplars.empty() || test::contains(parts.analysis, " leads, ")) continue;
      ++drawn;
      wrong += record.verdict == "ok" ? 0 : 1;
    }
    REQUIRE(drawn > 80);
    wrong_share[share] = wrong / drawn;
  }
  CHECK(std::abs(wrong_share[0.5] - wrong_share[0]) < 0.12);
}

TEST_CASE("comparing records show as many kernels as the plan says, and few kernels show none") {
  const auto folder = base::temp_folder::make().value();
  auto plan = small_plan();
  plan.tasks = 40;
  plan.exemplar_task_share = 1;
  plan.comparing_share = 1;
  for (const std::int64_t count : {1, 3, 5}) {
    CAPTURE(count);
    plan.exemplars_shown = count;
    knowing_judge judge;
    const auto file = folder.path() / fmt::format("{}.jsonl", count);
    make_all(plan, file, judge);
    int shown = 0;
    for (const auto& record : records_of(file)) {
      CHECK((record.exemplars.empty() || std::ssize(record.exemplars) == count));
      shown += record.exemplars.empty() ? 0 : 1;
    }
    CHECK(shown > 5);
  }
  plan.exemplars_shown = 2;
  knowing_judge judge;
  judge.noise_every = 1;
  const auto counts = make_all(plan, folder.path() / "noise.jsonl", judge);
  CHECK(counts.records == 0);
}

TEST_CASE("a corpus that was begun without comparing records is not gone on with any") {
  const auto folder = base::temp_folder::make().value();
  const auto file = folder.path() / env::shard_file(0);
  auto plan = small_plan();
  plan.tasks = 1;
  knowing_judge judge;
  make_all(plan, file, judge);
  // As an earlier build wrote it.
  std::string text = base::read_file(file).value();
  for (const std::string_view key : {"\"comparing_share\":", "\"wrong_shown_share\":",
                                     "\"best_shown\":", "\"comparing\":", "\"showing\":"}) {
    CAPTURE(key);
    const std::size_t begin = text.find(key), end = text.find_first_of(",}", begin);
    REQUIRE(end < text.size());
    // The last key of a line has its comma before it.
    text.erase(text[end] == ',' ? begin : begin - 1, end + 1 - begin);
  }
  REQUIRE(base::write_file_atomic(file, text));
  const auto form = small_form();
  CHECK(env::corpus_maker::open(plan, form, {}, file, judge));
  plan.comparing_share = 0.5;
  const auto refused = env::corpus_maker::open(plan, form, {}, file, judge);
  REQUIRE_FALSE(refused);
  CHECK(test::contains(refused.error().message, "comparing_share = \"0\", now it is \"0.5\""));
  const auto found = env::survey_corpus(folder.path()).value();
  CHECK(test::contains(env::check_corpus(found, folder.path(), plan).error().message,
                       "comparing_share"));
  plan.comparing_share = 1.5;
  CHECK(test::contains(env::validate(plan).error().message, "comparing_share is 1.5"));
}

TEST_CASE("comparing records of an earlier build are not gone on with: it chose them otherwise") {
  const auto folder = base::temp_folder::make().value();
  const auto file = folder.path() / env::shard_file(0);
  auto plan = small_plan();
  plan.tasks = 2;
  plan.exemplar_task_share = plan.comparing_share = 1;
  knowing_judge judge;
  const auto counts = make_all(plan, file, judge);
  REQUIRE(counts.comparing > 0);
  const std::string now = base::read_file(file).value();
  const auto form = small_form();
  const auto without = [&](std::vector<std::string_view> keys) {
    std::string text = now;
    for (const std::string_view key : keys)
      for (std::size_t begin = 0; (begin = text.find(key)) != text.npos;) {
        const std::size_t end = text.find_first_of(",}", begin);
        text.erase(text[end] == ',' ? begin : begin - 1, end + 1 - begin);
      }
    REQUIRE(base::write_file_atomic(file, text));
    return env::corpus_maker::open(plan, form, {}, file, judge);
  };
  {
    // Its lines of counts had no wrong ones.
    const auto same = without({"\"wrong_shown\":", "\"wrong_shown_share\":"});
    REQUIRE(same);
    CHECK(same->counts() == counts);
  }
  const auto other = without({"\"comparisons_form\":"});
  REQUIRE_FALSE(other);
  CHECK(test::contains(other.error().message, "comparisons_form = 1, now it is 2"));
  const auto found = env::survey_corpus(folder.path()).value();
  CHECK(test::contains(env::check_corpus(found, folder.path(), plan).error().message,
                       "comparisons_form = 1"));
}
