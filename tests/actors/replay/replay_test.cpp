// The head of a run, driven by hand: a generator, evaluators and a learner that are a few lines
// each. Whatever is lost on the way, the law holds and every step is made once.
#include "actors/replay/replay.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "actors/defaults.hpp"
#include "actors/replay/rollout.hpp"
#include "base/file.hpp"
#include "base/random.hpp"
#include "env/prompt/completion.hpp"
#include "env/verdict/verdict.hpp"
#include "storage/blobs.hpp"
#include "support/caught_stderr.hpp"
#include "support/test.hpp"
#include "tests/actors/replay/replay_fixture.hpp"

using namespace quern;
using namespace quern::actors;
using test::fixture;
using test::weights_of;

namespace {

/// Everything around the head of the run.
class world {
 public:
  world(const run_config& config, const task_book& tasks, const std::filesystem::path& root,
        bool fresh, std::uint64_t seed)
      : config_(config), random_(seed, "replay world"), root_(root) {
    auto opened =
        fresh ? storage::run_directory::create(root, "quern_config: 1\n", base::json::object())
              : storage::run_directory::open(root);
    REQUIRE(opened);
    run_.emplace(std::move(*opened));
    auto head = replay::open(config_, *run_, tasks, "cpp-avx2");
    REQUIRE_MESSAGE(head, (head ? "" : head.error().message));
    head_ = std::move(*head);
    meet();
  }

  /// Carries orders until the end, or until `most` of them.
  std::optional<drained> go(int most = 100000) {
    for (int round = 0; round < most && told; ++round) {
      head_->generators(4, installed_);
      if (!given_up.empty()) return std::nullopt;
      auto orders = head_->advance();
      REQUIRE_MESSAGE(orders, (orders ? "" : orders.error().message));
      if (orders->end) return orders->end;
      check_nothing_is_left_to_order();
      carry(*orders);
      deliver();
    }
    return std::nullopt;
  }

  /// A learner that starts from the newest checkpoint.
  void meet() {
    installed_ = head_->version();
    weights_ = {{0, weights_of(0)}, {installed_, weights_of(installed_)}};
    if (const auto text = base::read_file(weights_file(installed_)))
      weights_[installed_] = base::parse_hash(*text).value();
    REQUIRE(head_->on_weights(head_->epoch(), installed_, weights_.at(installed_)));
    head_->learner_ready(true);
  }

  replay& head() { return *head_; }
  void lose_messages() { waiting_.clear(); }

 private:
  using event = std::function<void()>;

  /// Nobody asks again before something has happened, which may be never.
  void check_nothing_is_left_to_order() {
    const auto again = head_->advance();
    REQUIRE_MESSAGE(again, (again ? "" : again.error().message));
    CHECK(again->generate.empty());
    CHECK(again->scout.empty());
    CHECK(again->judge.empty());
    CHECK_FALSE(again->train.has_value());
    CHECK_FALSE(again->save.has_value());
    CHECK_FALSE(again->end.has_value());
  }

  void carry(replay_orders& orders) {
    for (const generate_group& group : orders.generate) {
      for (const sample_id sample : group.samples) {
        waiting_.push_back(
            [this, group, sample] { CHECK(head_->on_generated(make(group, sample))); });
      }
    }
    for (const evaluate_sample& scout : orders.scout)
      judge(scout);
    for (const completion_order& order : orders.judge) {
      const auto read = read_completion(order, {config_.env.protocol, "cpp-avx2"});
      if (const auto* candidate = std::get_if<evaluate_sample>(&read)) {
        judge(*candidate);
      } else {
        kinds_[order.sample] = "malformed";
        CHECK(head_->on_verdict(std::get<sample_verdict>(read)));
      }
    }
    if (orders.save) {
      const save_checkpoint order = *orders.save;
      waiting_.push_back([this, order] { CHECK(head_->on_checkpoint(save(order))); });
    }
    if (orders.train) {
      const train_batch batch = *orders.train;
      CHECK(batch.samples.size() >= 2);
      if (on_batch) {
        on_batch(batch);
        return;
      }
      waiting_.push_back([this, batch] { step(batch); });
    }
  }

  generated_sample make(const generate_group& group, sample_id sample) {
    generated_sample made;
    made.epoch = group.epoch;
    made.sample = sample;
    made.tokens = to_block<std::int32_t>({1, 2, 3, 4, 5, 6, 7});
    made.segments = turns_of(sample);
    made.log_probs =
        to_block(std::vector<float>(static_cast<std::size_t>(policy_tokens(made.segments)), -1));
    made.versions = {{0, installed_, weights_.at(installed_)}};
    if (config_.actors.stale_groups == "mask_tokens" && installed_ > 0)
      made.versions = {{0, 0, weights_.at(0)}, {1, installed_, weights_.at(installed_)}};
    const bool readable = !random_.chance(0.1);
    made.text = readable
                    ? env::render_completion({"a", "b", "int v" + std::to_string(sample) + ";\n"})
                    : "no code";
    return made;
  }

  /// Every third sample has two turns.
  static std::vector<token_segment> turns_of(sample_id sample) {
    if (sample % 3 != 0) return single_turn(2, 5);
    return {{2, token_origin::prompt, false},
            {2, token_origin::policy, true},
            {1, token_origin::environment, false},
            {2, token_origin::policy, true}};
  }

  /// Segments reach the learner as the generator made them, also from a blob of an earlier life;
  /// but for what is too old, which is the first token of the policy here.
  void check_segments_of(const train_batch& batch) {
    for (const training_sample& sample : batch.samples) {
      CHECK(check_segments(sample.segments, sample.tokens, sample.log_probs));
      const bool too_old = batch.from - sample.versions.front().version > config_.actors.staleness;
      CHECK(sample.segments == mask_head(turns_of(sample.sample), too_old ? 1 : 0));
      masked_samples += too_old ? 1 : 0;
      samples_of_two_turns += sample.sample % 3 == 0 ? 1 : 0;
    }
  }

  void judge(const evaluate_sample& candidate) {
    sample_verdict answer;
    answer.epoch = candidate.epoch;
    answer.sample = candidate.sample;
    answer.lease = next_lease_++;
    answer.attempt = candidate.attempt;
    env::verdict verdict;
    verdict.kind = random_.chance(0.6) ? env::verdict_kind::ok : env::verdict_kind::wrong_value;
    if (random_.chance(0.05)) verdict.kind = env::verdict_kind::noisy;
    if (no_reference) verdict.kind = env::verdict_kind::infra_error;
    verdict.task = candidate.task;
    verdict.source = base::to_hex(base::xxh128(candidate.source));
    verdict.protocol = config_.env.protocol;
    verdict.device_class = "cpp-avx2";
    if (verdict.kind == env::verdict_kind::ok) {
      verdict.speedup_e2 = 50 + static_cast<std::int64_t>(random_.below(300));
    }
    kinds_[candidate.sample] = std::string(env::name_of(verdict.kind));
    answer.counts = env::judges_candidate(verdict.kind);
    answer.exhausted = !answer.counts;
    answer.json = base::dump(env::to_json(verdict));
    waiting_.push_back([this, answer] {
      const auto taken = head_->on_verdict(answer);
      if (no_reference && !taken) given_up = taken.error().message;
      CHECK((taken || no_reference));
    });
  }

  void step(const train_batch& batch) {
    check_segments_of(batch);
    step_done done;
    done.epoch = batch.epoch;
    done.batch = batch.number;
    if (batch.number <= spoiled_batches) return leave_out(batch, done);
    // A step that is taken again has other samples, so it makes other weights.
    const auto made =
        base::xxh128(fmt::format("weights {} of epoch {}", batch.from + 1, batch.epoch));
    if (batch.epoch == head_->epoch()) weights_[batch.from + 1] = made;
    done.weights = {batch.epoch, batch.from + 1, made, "even"};
    if (batch.epoch == head_->epoch()) check_results_of(batch);
    std::size_t aged = 0;
    for (const auto& [age, samples] : head_->batch_ages()) {
      CHECK(age >= 0);
      if (config_.actors.stale_groups != "mask_tokens") CHECK(age <= config_.actors.staleness);
      aged += static_cast<std::size_t>(samples);
    }
    if (batch.epoch == head_->epoch()) CHECK(aged == batch.samples.size());
    CHECK(head_->on_step(done));
    CHECK(head_->batch_ages().empty());
    if (batch.epoch == head_->epoch()) installed_ = std::max(installed_, batch.from + 1);
    steps_made[{batch.epoch, batch.from}] += 1;
    head_->learner_ready(true);
  }

  void leave_out(const train_batch& batch, step_done done) {
    done.left_out = true;
    done.weights = {batch.epoch, batch.from, weights_.at(batch.from), ""};
    told = head_->on_step(done);
    head_->learner_ready(true);
    for (const training_sample& sample : batch.samples)
      left_out.insert(sample.sample);
  }

  /// What the step's line shows is about the samples of the batch, whatever else was judged.
  void check_results_of(const train_batch& batch) {
    const step_results results = head_->batch_results();
    CHECK(results.step == batch.from + 1);
    CHECK(results.samples == static_cast<std::int64_t>(batch.samples.size()));
    step_results expected;
    for (const training_sample& sample : batch.samples) {
      if (!kinds_.contains(sample.sample)) return;  // judged in an earlier life
      expected.add(kinds_[sample.sample], sample.reward);
    }
    ++results_checked;
    CHECK(results.verdicts == expected.verdicts);
    CHECK(results.rewarded == expected.rewarded);
    CHECK(results.reward_sum == doctest::Approx(expected.reward_sum));
  }

  checkpoint_saved save(const save_checkpoint& order) {
    REQUIRE(base::make_folders(std::filesystem::path(order.folder) / "model"));
    REQUIRE(
        base::write_file_atomic(std::filesystem::path(order.folder) / "model/config.json", "{}"));
    REQUIRE(base::write_file_atomic(weights_file(order.version),
                                    base::to_hex(weights_.at(order.version))));
    return {order.version, order.folder, "", order.epoch};
  }

  /// The hash of a checkpoint's weights, for the learner that starts from it.
  std::filesystem::path weights_file(weights_version version) const {
    return root_ / ("weights-" + std::to_string(version));
  }

  /// Delivers what waits, in any order.
  void deliver() {
    for (std::size_t left = std::min<std::size_t>(waiting_.size(), 6); left > 0; --left) {
      const std::size_t pick = random_.below(waiting_.size());
      const event chosen = std::move(waiting_[pick]);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(pick));
      chosen();
    }
  }

 public:
  std::map<std::pair<epoch_id, weights_version>, int> steps_made;
  int masked_samples = 0;  ///< of the steps made, with a token that was too old
  int samples_of_two_turns = 0;
  int results_checked = 0;           ///< steps whose results were compared
  std::int64_t spoiled_batches = 0;  ///< the first ones of an epoch have no finite gradient
  std::set<sample_id> left_out;      ///< samples of those
  std::function<void(const train_batch&)> on_batch;  ///< instead of a learner
  base::status told;          ///< of the last step that was left out; an error ends `go`
  bool no_reference = false;  ///< evaluators can judge nothing
  std::string given_up;       ///< what the head of the run said then

 private:
  const run_config& config_;
  base::random_stream random_;
  std::filesystem::path root_;
  std::map<weights_version, base::hash128> weights_;  ///< of this epoch
  std::optional<storage::run_directory> run_;
  std::unique_ptr<replay> head_;
  std::vector<event> waiting_;
  weights_version installed_ = 0;
  std::uint64_t next_lease_ = 1;
  std::map<sample_id, std::string> kinds_;  ///< verdicts
};

void check_end(world& w, std::int64_t steps) {
  const auto counts = w.head().counts();
  REQUIRE(counts);
  CHECK(counts->law_holds());
  CHECK(counts->in_flight() == 0);
  CHECK(counts->of(storage::sample_state::consumed) == 0);
  CHECK(counts->of(storage::sample_state::trained) >= steps * 2 * 2);
  CHECK(w.head().rows().audit());
  for (const auto& [step, times] : w.steps_made)
    CHECK(times == 1);
}

/// A run that begins in `root`, carries `most` rounds of orders and pauses; its version then.
weights_version paused_at(const fixture& f, const std::filesystem::path& root, int most,
                          std::uint64_t seed) {
  world w(f.config, *f.tasks, root, true, seed);
  REQUIRE_FALSE(w.go(most));
  w.head().drain(ending::pause);
  const auto end = w.go();
  REQUIRE(end);
  CHECK_FALSE(end->finished);
  CHECK(static_cast<ending>(end->how) == ending::pause);
  CHECK(w.head().counts()->of(storage::sample_state::consumed) == 0);
  CHECK(w.head().close());
  return w.head().version();
}

/// One of the lines has all the parts.
bool warned(const std::vector<std::string>& lines, const std::vector<std::string>& parts) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return std::all_of(parts.begin(), parts.end(),
                       [&](const std::string& part) { return test::contains(line, part); });
  });
}

}  // namespace

TEST_CASE("a run goes to its end and everything issued is trained or dropped") {
  fixture f;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    world w(f.config, *f.tasks, f.folder.path() / ("run" + std::to_string(seed)), true, seed);
    const auto end = w.go();
    REQUIRE(end);
    CHECK(end->finished);
    CHECK(w.head().version() == f.config.learner.steps);
    CHECK(w.samples_of_two_turns > 0);
    CHECK(w.results_checked == f.config.learner.steps);
    CHECK(w.masked_samples == 0);
    check_end(w, f.config.learner.steps);
    CHECK(w.head().close());
  }
}

TEST_CASE("the slot of a group that became too old goes to a new group at once") {
  fixture f;
  f.config.algorithm.groups_per_step = 1;
  f.config.actors.staleness = 1;
  f.config.learner.steps = 6;
  std::int64_t stale = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    world w(f.config, *f.tasks, f.folder.path() / ("run" + std::to_string(seed)), true, seed);
    const auto end = w.go();
    REQUIRE(end);
    CHECK(end->finished);
    const auto dropped = w.head().rows().drop_reasons().value();
    if (const auto found = dropped.find("stale"); found != dropped.end()) stale += found->second;
    CHECK(w.head().close());
  }
  CHECK(stale > 0);
}

TEST_CASE("batches without a finite gradient are dropped with their reason, and the run goes on") {
  fixture f;
  world w(f.config, *f.tasks, f.folder.path() / "left out", true, 6);
  w.spoiled_batches = defaults::most_left_out - 1;
  std::optional<drained> end;
  std::vector<std::string> lines;
  {
    test::caught_stderr said(f.folder.path() / "said");
    end = w.go();
    lines = said.lines();
  }
  REQUIRE(end);
  CHECK(end->finished);
  CHECK(w.told);
  CHECK(w.head().version() == f.config.learner.steps);
  check_end(w, f.config.learner.steps);
  CHECK_FALSE(w.left_out.empty());
  CHECK(w.head().rows().drop_reasons()->at("non_finite") ==
        static_cast<std::int64_t>(w.left_out.size()));
  for (const sample_id sample : w.left_out)
    CHECK(w.head().rows().sample(sample)->state == storage::sample_state::dropped);
  // The reasons are on the terminal while the run goes on.
  CHECK(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return test::contains(line, "samples dropped since this start: non_finite ");
  }));
}

TEST_CASE("several in a row end the run, and a resumed one does not take them up again") {
  fixture f;
  const auto root = f.folder.path() / "ruined";
  std::set<sample_id> left_out;
  {
    world w(f.config, *f.tasks, root, true, 6);
    w.spoiled_batches = 1000;
    REQUIRE_FALSE(w.go());
    REQUIRE_FALSE(w.told);
    CHECK(test::contains(w.told.error().message, "3 batches in a row, the limit is 3"));
    CHECK(test::contains(w.told.error().message, "lower learner.learning_rate (it is 5e-05)"));
    CHECK(w.head().version() == 0);
    left_out = w.left_out;
    CHECK(left_out.size() >= 2 * 2 * 3);
  }  // nothing more is committed
  world w(f.config, *f.tasks, root, false, 7);
  for (const sample_id sample : left_out)
    CHECK(w.head().rows().sample(sample)->state == storage::sample_state::dropped);
  const auto end = w.go();
  REQUIRE(end);
  CHECK(end->finished);
  check_end(w, f.config.learner.steps);
}

TEST_CASE("weights that changed in a step that was left out end the run") {
  fixture f;
  world w(f.config, *f.tasks, f.folder.path() / "changed", true, 6);
  std::optional<train_batch> batch;
  w.on_batch = [&](const train_batch& one) { batch = one; };
  REQUIRE_FALSE(w.go(40));
  REQUIRE(batch);
  step_done done;
  done.epoch = batch->epoch;
  done.batch = batch->number;
  done.left_out = true;
  done.weights = {batch->epoch, batch->from, weights_of(batch->from + 1), ""};
  const auto refused = w.head().on_step(done);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == base::errc::conflict);
}

TEST_CASE("what is too old in a sample is a segment that is not trained") {
  fixture f;
  f.config.actors.stale_groups = "mask_tokens";
  f.config.learner.steps = 8;
  world w(f.config, *f.tasks, f.folder.path() / "masked", true, 9);
  const auto end = w.go();
  REQUIRE(end);
  CHECK(end->finished);
  CHECK(w.masked_samples > 0);
  check_end(w, f.config.learner.steps);
}

TEST_CASE("segments that do not fit their tokens end the run with the sample and the numbers") {
  fixture f;
  auto run = storage::run_directory::create(f.folder.path() / "unfit", "quern_config: 1\n",
                                            base::json::object());
  REQUIRE(run);
  const auto head = replay::open(f.config, *run, *f.tasks, "cpp-avx2");
  REQUIRE(head);
  (*head)->generators(1, 0);
  const auto orders = (*head)->advance();
  REQUIRE(orders);
  generated_sample made;
  made.epoch = (*head)->epoch();
  made.sample = orders->generate.at(0).samples.at(0);
  made.tokens = to_block<std::int32_t>({1, 2, 3});
  made.segments = single_turn(1, 1);
  made.log_probs = to_block<float>({-1});
  made.versions = {{0, 0, weights_of(0)}};
  const auto refused = (*head)->on_generated(made);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        fmt::format("sample {}: 2 segments cover 2 of 3 tokens", made.sample));
}

TEST_CASE("the process dies at any moment: the next epoch takes up every sample") {
  fixture f;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const auto root = f.folder.path() / ("killed" + std::to_string(seed));
    for (int life = 0;; ++life) {
      REQUIRE(life < 50);
      world w(f.config, *f.tasks, root, life == 0, seed * 100 + static_cast<std::uint64_t>(life));
      const auto end = w.go(life < 3 ? static_cast<int>(2 + seed % 7) : 5000);
      if (!end) continue;  // destroyed without a word: what was not committed is gone
      CHECK(end->finished);
      check_end(w, f.config.learner.steps);
      break;
    }
  }
}

TEST_CASE("a lost learner costs the steps since the checkpoint, no sample twice") {
  fixture f;
  // Among so many there are groups of which one member was dropped before the learner was lost,
  // with weights that are then made anew.
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    world w(f.config, *f.tasks, f.folder.path() / ("learner" + std::to_string(seed)), true, seed);
    REQUIRE_FALSE(w.go(static_cast<int>(5 + seed % 12)));
    const epoch_id before = w.head().epoch();
    w.lose_messages();
    REQUIRE(w.head().learner_lost());
    CHECK(w.head().epoch() == before + 1);
    w.meet();
    const auto end = w.go();
    REQUIRE(end);
    CHECK(end->finished);
    check_end(w, f.config.learner.steps);
  }
}

TEST_CASE("pause drains to a checkpoint, and the run goes on later") {
  fixture f;
  const auto root = f.folder.path() / "paused";
  const weights_version reached = paused_at(f, root, 9, 4);
  world w(f.config, *f.tasks, root, false, 5);
  CHECK(w.head().start().version == reached);
  const auto end = w.go();
  REQUIRE(end);
  CHECK(end->finished);
  check_end(w, f.config.learner.steps);
}

TEST_CASE("what a generator starts from is there to the end of the epoch") {
  fixture f;
  f.config.learner.steps = 12;
  f.config.storage.checkpoint_every_steps = 1;
  const auto root = f.folder.path() / "held";
  CHECK(paused_at(f, root, 20, 7) > 0);
  world w(f.config, *f.tasks, root, false, 8);
  const std::filesystem::path first = w.head().start().model;
  CHECK(std::filesystem::exists(first / "config.json"));
  REQUIRE(w.go());
  CHECK(w.head().version() == 12);
  // One that dies now begins with these weights, and is told of the newer ones.
  CHECK(std::filesystem::exists(first / "config.json"));
}

TEST_CASE("a reader of run.db is no reason for a complete run to fail") {
  fixture f;
  f.config.learner.steps = 1;
  for (const char* reads : {"SELECT 1", "BEGIN; SELECT count(*) FROM samples"}) {
    CAPTURE(reads);
    const auto root = f.folder.path() / (reads[0] == 'B' ? "within" : "idle");
    {
      world w(f.config, *f.tasks, root, true, 5);
      const auto reader = storage::database::open(root / "run.db", storage::database::access::read);
      REQUIRE(reader);
      REQUIRE((*reader)->execute(reads));
      REQUIRE(w.go());
      CHECK(w.head().close());
      CHECK(std::filesystem::exists(root / "run.db-wal"));
    }
    const auto later = storage::database::open(root / "run.db", storage::database::access::read);
    REQUIRE(later);
    CHECK(storage::ledger::open(**later).value()->position().value().checkpoint->version == 1);
  }
}

TEST_CASE("a group whose prompt is lost is dropped with a reason, and the run goes on") {
  fixture f;
  for (const bool damaged : {true, false}) {
    CAPTURE(damaged);
    const auto root = f.folder.path() / (damaged ? "damaged prompt" : "no prompt");
    {
      world w(f.config, *f.tasks, root, true, 4);
      REQUIRE_FALSE(w.go(9));
    }
    storage::group_row lost;
    {
      const auto db = storage::database::open(root / "run.db", storage::database::access::read);
      REQUIRE(db);
      lost = storage::ledger::open(**db).value()->live_groups().value().front();
    }
    const auto file = storage::blob_store(root / "blobs").path_of(lost.prompt_hash);
    if (damaged) {
      REQUIRE(base::write_file_atomic(file, "no longer what it was"));
    } else {
      REQUIRE(std::filesystem::remove(file));
    }
    world w(f.config, *f.tasks, root, false, 5);
    const auto rows = w.head().rows().group(lost.id);
    REQUIRE(rows);
    for (const storage::sample_row& sample : rows->samples) {
      CHECK(sample.state == storage::sample_state::dropped);
      CHECK(sample.drop_reason == "prompt_lost");
    }
    const auto end = w.go();
    REQUIRE(end);
    CHECK(end->finished);
    check_end(w, f.config.learner.steps);
  }
}

TEST_CASE("a prompt that the system cannot read ends the start: its group is not dropped") {
  fixture f;
  const auto root = f.folder.path() / "unreadable prompt";
  {
    world w(f.config, *f.tasks, root, true, 4);
    REQUIRE_FALSE(w.go(9));
  }
  storage::group_row row;
  {
    const auto db = storage::database::open(root / "run.db", storage::database::access::read);
    REQUIRE(db);
    row = storage::ledger::open(**db).value()->live_groups().value().front();
  }
  const auto file = storage::blob_store(root / "blobs").path_of(row.prompt_hash);
  const auto kept = f.folder.path() / "kept";
  std::filesystem::rename(file, kept);
  std::filesystem::create_symlink(file, file);  // a link to itself: ELOOP, for root, too
  {
    auto run = storage::run_directory::open(root);
    REQUIRE(run);
    const auto refused = replay::open(f.config, *run, *f.tasks, "cpp-avx2");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == base::errc::io);
    CHECK(test::contains(refused.error().message, file.string()));
  }
  std::filesystem::remove(file);
  std::filesystem::rename(kept, file);
  world w(f.config, *f.tasks, root, false, 5);
  const auto rows = w.head().rows().group(row.id);
  REQUIRE(rows);
  for (const storage::sample_row& sample : rows->samples)
    CHECK(sample.state != storage::sample_state::dropped);
  REQUIRE(w.go());
  check_end(w, f.config.learner.steps);
}

TEST_CASE("newer checkpoints than the ledger knows are kept when a run goes on, out of the way") {
  fixture f;
  f.config.storage.checkpoint_every_steps = 1;
  const auto root = f.folder.path() / "old ledger", copy = f.folder.path() / "run.db";
  const weights_version reached = paused_at(f, root, 9, 4);
  std::filesystem::copy_file(root / "run.db", copy);
  {
    world w(f.config, *f.tasks, root, false, 5);
    REQUIRE(w.go());
    CHECK(w.head().close());
  }
  std::filesystem::copy_file(copy, root / "run.db",
                             std::filesystem::copy_options::overwrite_existing);
  std::vector<std::string> said;
  const auto opened = [&] {
    test::caught_stderr caught(f.folder.path() / "said");
    auto made = std::make_unique<world>(f.config, *f.tasks, root, false, 6);
    said = caught.lines();
    return made;
  }();
  world& w = *opened;
  CHECK(w.head().start().version == reached);
  const storage::checkpoint_store aside(root / "checkpoints/set_aside");
  REQUIRE_FALSE(aside.versions().empty());
  CHECK(aside.versions().front() == f.config.learner.steps);
  CHECK(aside.verify(f.config.learner.steps));
  for (const weights_version version : aside.versions()) {
    CAPTURE(version);
    const std::string folder = aside.folder_of(version).string();
    CHECK(warned(said,
                 {"goes on from version " + std::to_string(reached), "whole", "moved to " + folder,
                  "policy.model=" + folder + "/model", "delete the folder"}));
  }
  const auto end = w.go();
  REQUIRE(end);
  CHECK(end->finished);
  check_end(w, f.config.learner.steps);
}

TEST_CASE("a damaged checkpoint is set aside with what is left of it, a stray file only named") {
  fixture f;
  f.config.storage.checkpoint_every_steps = 1;
  const auto root = f.folder.path() / "damaged";
  const weights_version reached = paused_at(f, root, 12, 4);
  REQUIRE(reached > 1);
  const storage::checkpoint_store store(root / "checkpoints");
  const auto newest = store.folder_of(reached), aside = root / "checkpoints/set_aside";
  REQUIRE(base::write_file_atomic(newest / "notes.txt", "hi"));
  std::vector<std::string> said;
  const auto version_at_start = [&] {
    test::caught_stderr caught(f.folder.path() / "said");
    world w(f.config, *f.tasks, root, false, 5);
    said = caught.lines();
    return w.head().start().version;
  };
  CHECK(version_at_start() == reached);
  CHECK(warned(said, {(newest / "notes.txt").string(), "not in the manifest"}));
  CHECK(std::filesystem::exists(newest / "notes.txt"));
  CHECK_FALSE(std::filesystem::exists(aside));

  REQUIRE(base::write_file_atomic(newest / "state.json", "{}"));
  CHECK(version_at_start() < reached);
  const std::string moved = (aside / newest.filename()).string();
  CHECK(warned(said, {(newest / "state.json").string(), "moved to " + moved, "Its model is whole",
                      "quern export " + moved, "delete the folder"}));
  CHECK_FALSE(std::filesystem::exists(newest));
  CHECK(std::filesystem::exists(aside / newest.filename() / "notes.txt"));
  const auto left = storage::check_checkpoint(aside / newest.filename(), storage::model_part);
  REQUIRE(left);
  CHECK(left->whole());
  world w(f.config, *f.tasks, root, false, 6);
  const auto end = w.go();
  REQUIRE(end);
  CHECK(end->finished);
  check_end(w, f.config.learner.steps);
}

TEST_CASE("lost texts of variants cost prompts their exemplars, not the run its end") {
  fixture f;
  f.config.replay.without_exemplars_share = 0;
  const auto root = f.folder.path() / "holes";
  paused_at(f, root, 9, 4);
  const storage::blob_store blobs(root / "blobs");
  int lost = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "blobs")) {
    if (!entry.is_regular_file()) continue;
    const auto hash = base::parse_hash(entry.path().stem().string());
    REQUIRE(hash);
    if (!blobs.get(*hash).value().starts_with("int v")) continue;
    REQUIRE(std::filesystem::remove(entry.path()));
    ++lost;
  }
  CHECK(lost > 0);
  world w(f.config, *f.tasks, root, false, 5);
  const auto end = w.go();
  REQUIRE(end);
  CHECK(end->finished);
  check_end(w, f.config.learner.steps);
}

TEST_CASE("completions that control judges itself do not hide evaluators that judge nothing") {
  fixture f;
  world w(f.config, *f.tasks, f.folder.path() / "sick", true, 7);
  // One completion in ten cannot be read: there are never 256 failures without one in between.
  w.no_reference = true;
  CHECK_FALSE(w.go(5000));
  CHECK(w.given_up.find("no verdict") != std::string::npos);
}

TEST_CASE("stop drops the rest with a reason") {
  fixture f;
  world w(f.config, *f.tasks, f.folder.path() / "stopped", true, 6);
  REQUIRE_FALSE(w.go(9));
  w.head().drain(ending::stop);
  const auto end = w.go();
  REQUIRE(end);
  const auto counts = w.head().counts();
  CHECK(counts->law_holds());
  CHECK(counts->in_flight() == 0);
  CHECK(w.head().rows().drop_reasons()->count("stopped") == 1);
}

TEST_CASE("as many checkpoints stay as the configuration says") {
  fixture f;
  f.config.learner.steps = 12;
  f.config.storage.checkpoint_every_steps = 1;
  f.config.storage.keep_checkpoints = 4;
  const auto root = f.folder.path() / "kept";
  world w(f.config, *f.tasks, root, true, 5);
  REQUIRE(w.go());
  const storage::checkpoint_store store(root / "checkpoints");
  // A save that is under way lets a version go by, so that only the newest is known.
  CHECK(store.versions().size() == 4);
  CHECK(store.versions().front() == 12);
  CHECK(store.latest() == 12);
}

TEST_CASE("a prompt that is too long loses its exemplars, and a bare one its run") {
  fixture f;
  const auto length = prompt_length::make(f.config).value();
  const auto make = [&] { return prompter::make(f.config, "cpp-avx2").value(); };
  const book_task& task = f.tasks->tasks()[0];
  const std::string code(400, 'x');
  const std::vector<shown_exemplar> shown = {{1, {code, 150}}, {2, {code, 250}}};
  f.config.policy.max_prompt_tokens = 100'000;
  const made_prompt whole = make().render(task, shown);
  CHECK(whole.exemplars == std::vector<std::int64_t>{1, 2});
  const made_prompt bare = make().render(task, {});
  CHECK(length.of(bare.text) < length.of(whole.text));
  // The bound is inclusive.
  f.config.policy.max_prompt_tokens = length.of(whole.text);
  CHECK(make().render(task, shown).text == whole.text);
  f.config.policy.max_prompt_tokens = length.of(whole.text) - 1;
  const made_prompt cut = make().render(task, shown);
  CHECK(cut.text == bare.text);
  CHECK(cut.exemplars.empty());
  const std::vector<book_task> one = {task};
  f.config.policy.max_prompt_tokens = length.of(bare.text);
  CHECK(make().check(one));
  f.config.policy.max_prompt_tokens = length.of(bare.text) - 1;
  const auto refused = make().check(one);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find(task.task->name) != std::string::npos);
  // The run does not begin either.
  auto run = storage::run_directory::create(f.folder.path() / "short", "quern_config: 1\n",
                                            base::json::object());
  REQUIRE(run);
  const auto opened = replay::open(f.config, *run, *f.tasks, "cpp-avx2");
  REQUIRE_FALSE(opened);
  CHECK(opened.error().message.find("policy.max_prompt_tokens") != std::string::npos);
}

TEST_CASE("more tasks than can be drawn are refused, not waited for") {
  run_config config;
  config.tasks.count = 1;
  config.tasks.held_out_count = 1000;
  for (const double share : {1e-6, 0.001}) {
    config.tasks.held_out_share = share;
    const auto made = task_book::make(config);
    REQUIRE_FALSE(made);
    CHECK(made.error().message.find("tasks.held_out_count = 1000") != std::string::npos);
    CHECK(made.error().message.find("the limit is 20000") != std::string::npos);
  }
}

TEST_CASE("candidates of lane cuda may have host code only where run and suite allow it") {
  const auto rules = [](const char* source, bool host_entry) {
    run_config config = test::small_run();
    config.env.lane = "cuda";
    config.env.host_entry = host_entry;
    config.tasks.source = source;
    config.tasks.suite = (test::source_dir() / "env/suites/cuda_quick").string();
    const auto made = task_book::make(config);
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    return made->rules().policy;
  };
  CHECK(rules("suite", false) == "none");
  CHECK(rules("suite", true) == "graphs,host_entry");
  CHECK(rules("generated", false) == "none");
  CHECK(rules("generated", true) == "host_entry");
}
