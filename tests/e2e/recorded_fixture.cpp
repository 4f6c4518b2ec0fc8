// Kernels of the grammar as recorded completions.
#include "e2e/recorded_fixture.hpp"

#include <algorithm>

#include "actors/config/config_file.hpp"
#include "actors/orchestrator/recorded_book.hpp"
#include "actors/orchestrator/sample_blob.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "env/grammar/completion_text.hpp"
#include "env/grammar/variants.hpp"
#include "env/judge/cost_model.hpp"
#include "storage/blobs.hpp"
#include "storage/database.hpp"
#include "storage/run_directory.hpp"
#include "support/test.hpp"

namespace quern::test {

namespace fs = std::filesystem;
using namespace quern::actors;

namespace {

std::vector<recorded_candidate> kernels_of(const book_task& task) {
  const env::composition_probe probe(task.composition);
  const env::variant_supply supply(probe, *task.task->lane->grammar());
  std::vector<std::pair<std::int64_t, recorded_candidate>> right;  // by speed-up
  const auto kernel = [&](const env::kernel_variant& of, const char* verdict) {
    return recorded_candidate{
        task.id, env::completion_text(task.composition, of, {}, task.task->lane->fence), verdict};
  };
  for (const env::kernel_variant& variant : supply.correct())
    right.emplace_back(env::cost_model_e2(task.id, variant.source), kernel(variant, "ok"));
  std::sort(right.begin(), right.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  REQUIRE(right.size() >= 4);
  std::vector<recorded_candidate> chosen = {right[0].second, right[1].second,
                                            right[right.size() - 2].second, right.back().second};
  chosen.front().best = true;
  for (std::uint64_t index = 0; chosen.size() < 6; ++index) {
    REQUIRE(index < 1000);
    const env::kernel_variant variant = supply.draw(1, index, 1);
    if (variant.intended_correct) continue;
    const recorded_candidate wrong = kernel(variant, "");
    if (std::none_of(chosen.begin(), chosen.end(),
                     [&](const recorded_candidate& one) { return one.text == wrong.text; }))
      chosen.push_back(wrong);
  }
  return chosen;
}

}  // namespace

run_config config_of(const std::vector<std::string>& train) {
  std::vector<std::string> settings;
  for (std::size_t i = 3; i + 1 < train.size(); i += 2)
    settings.push_back(train[i + 1]);
  auto config = load_config(train.at(2), settings);
  REQUIRE_MESSAGE(config, (config ? "" : config.error().message));
  return *config;
}

std::vector<recorded_candidate> kernels_for(const task_book& tasks) {
  std::vector<recorded_candidate> all;
  for (const book_task& task : tasks.tasks()) {
    if (task.held_out) continue;
    for (recorded_candidate& one : kernels_of(task))
      all.push_back(std::move(one));
  }
  return all;
}

void write_recorded(const fs::path& file, const std::vector<recorded_candidate>& completions) {
  std::string text;
  for (const recorded_candidate& one : completions)
    text += base::dump(base::json{{"task", one.task}, {"completion", one.text}}) + "\n";
  REQUIRE(base::write_file_atomic(file, text));
}

std::vector<played_sample> played_in(const fs::path& run) {
  auto db = storage::database::open(run / "run.db", storage::database::access::read);
  REQUIRE(db);
  const storage::blob_store blobs(run / "blobs");
  auto rows = (*db)->prepare(
      "SELECT s.grp, s.k, s.v_max, g.task, g.prompt_hash, s.tokens_hash, s.state, "
      "coalesce(s.drop_reason, ''), s.reward, coalesce((SELECT json ->> 'verdict' FROM verdicts "
      "WHERE sample = s.id ORDER BY id DESC LIMIT 1), '') FROM samples s "
      "JOIN groups g ON g.id = s.grp WHERE s.tokens_hash IS NOT NULL ORDER BY s.id");
  REQUIRE(rows);
  std::vector<played_sample> all;
  while (rows->next().value()) {
    const auto prompt = blobs.get(rows->maybe_hash(4).value().value());
    const auto tokens = blobs.get(rows->maybe_hash(5).value().value());
    REQUIRE(prompt);
    REQUIRE(tokens);
    const auto sample = decode_sample(*tokens);
    REQUIRE(sample);
    all.push_back({rows->integer(0), rows->integer(1), rows->integer(2), rows->text(3), *prompt,
                   sample->text, from_block<float>(sample->log_probs), sample->truncated,
                   rows->text(6), rows->text(7), rows->text(9), rows->maybe_real(8)});
  }
  return all;
}

void check_played(const fs::path& run, const run_config& config) {
  const auto tasks = task_book::make(config);
  REQUIRE(tasks);
  const auto book = load_recorded(config, run, tasks->tasks());
  REQUIRE_MESSAGE(book, (book ? "" : book.error().message));
  CHECK(recorded_file_of(config, run) == storage::run_paths{run}.recorded());
  const auto all = played_in(run);
  CHECK(all.size() > 0);
  for (const played_sample& one : all) {
    const auto place = static_cast<std::size_t>(one.place);
    const auto chosen = book->choose({one.task, one.prompt, one.group}, {&place, 1});
    REQUIRE(chosen);
    CHECK(one.text == chosen->front());
    CHECK_FALSE(one.truncated);
  }
}

}  // namespace quern::test
