// The orchestrator, driven by hand: a generator, evaluators and a learner that are a few lines
// each.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "actors/orchestrator/orchestrator.hpp"
#include "actors/orchestrator/rollout.hpp"
#include "base/file.hpp"
#include "base/random.hpp"
#include "env/prompt/completion.hpp"
#include "env/verdict/verdict.hpp"
#include "support/test.hpp"
#include "tests/actors/orchestrator/orchestrator_fixture.hpp"

namespace quern::test {

using namespace quern::actors;

/// Everything around the orchestrator.
class world {
 public:
  world(const run_config& config, const task_book& tasks, const std::filesystem::path& root,
        bool fresh, std::uint64_t seed)
      : config_(config), random_(seed, "replay world"), root_(root) {
    auto opened =
        fresh ? storage::run_directory::create(root, "quern_config: 2\n", base::json::object())
              : storage::run_directory::open(root);
    REQUIRE(opened);
    run_.emplace(std::move(*opened));
    auto head = orchestrator::open(config_, *run_, tasks, "cpp-avx2");
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
    REQUIRE(head_->on_weights(head_->incarnation(), installed_, weights_.at(installed_)));
    head_->learner_ready(true);
  }

  orchestrator& head() { return *head_; }
  void lose_messages() { waiting_.clear(); }

 private:
  using event = std::function<void()>;

  /// Nobody asks again before something has happened, which may be never.
  void check_nothing_is_left_to_order() {
    const auto again = head_->advance();
    REQUIRE_MESSAGE(again, (again ? "" : again.error().message));
    CHECK(again->generate.empty());
    CHECK(again->seed_variant.empty());
    CHECK(again->judge.empty());
    CHECK_FALSE(again->train.has_value());
    CHECK_FALSE(again->save.has_value());
    CHECK_FALSE(again->end.has_value());
  }

  void carry(orchestrator_orders& orders) {
    for (const generate_group& group : orders.generate) {
      if (on_order) on_order(group);
      for (const sample_id sample : group.samples) {
        waiting_.push_back(
            [this, group, sample] { CHECK(head_->on_generated(make(group, sample))); });
      }
    }
    for (const evaluate_sample& seed_variant : orders.seed_variant)
      judge(seed_variant);
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
    made.incarnation = group.incarnation;
    made.sample = sample;
    made.tokens = to_block<std::int32_t>({1, 2, 3, 4, 5, 6, 7});
    made.segments = turns_of(sample);
    made.log_probs =
        to_block(std::vector<float>(static_cast<std::size_t>(policy_tokens(made.segments)), -1));
    made.versions = {{0, installed_, weights_.at(installed_)}};
    if (config_.actors.stale_groups == "mask_tokens" && installed_ > 0)
      made.versions = {{0, 0, weights_.at(0)}, {1, installed_, weights_.at(installed_)}};
    const bool readable = !random_.chance(0.1);
    made.text = readable ? env::render_completion(
                               {"a", "b", "int v" + std::to_string(sample) + ";\n"}, "cpp")
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
    answer.incarnation = candidate.incarnation;
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
      for (const judged_sample& one : head_->take_judged()) {
        if (one.malformed) continue;
        CHECK(one.reward.has_value() == answer.counts);
        if (one.use.best_e2 > 0) ++with_exemplars;
        if (one.use.best_e2 > 0 && one.use.right) CHECK(one.use.speedup_e2 == one.speedup_e2);
        unjudged += one.reward ? 0 : 1;
      }
    });
  }

  void step(const train_batch& batch) {
    check_segments_of(batch);
    step_done done;
    done.incarnation = batch.incarnation;
    done.batch = batch.number;
    if (batch.number <= spoiled_batches) return leave_out(batch, done);
    // A step that is taken again has other samples, so it makes other weights.
    const auto made = base::xxh128(
        fmt::format("weights {} of incarnation {}", batch.from + 1, batch.incarnation));
    if (batch.incarnation == head_->incarnation()) weights_[batch.from + 1] = made;
    done.weights = {batch.incarnation, batch.from + 1, made, "even"};
    if (batch.incarnation == head_->incarnation()) check_results_of(batch);
    std::size_t aged = 0;
    for (const auto& [age, samples] : head_->batch_ages()) {
      CHECK(age >= 0);
      if (config_.actors.stale_groups != "mask_tokens") CHECK(age <= config_.actors.staleness);
      aged += static_cast<std::size_t>(samples);
    }
    if (batch.incarnation == head_->incarnation()) CHECK(aged == batch.samples.size());
    CHECK(head_->on_step(done));
    CHECK(head_->batch_ages().empty());
    if (batch.incarnation == head_->incarnation())
      installed_ = std::max(installed_, batch.from + 1);
    steps_made[{batch.incarnation, batch.from}] += 1;
    head_->learner_ready(true);
  }

  void leave_out(const train_batch& batch, step_done done) {
    done.left_out = true;
    done.weights = {batch.incarnation, batch.from, weights_.at(batch.from), ""};
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
    const queue_depths waits = head_->queues();
    CHECK(waits.tokens >= 0);
    CHECK(waits.tokens + waits.room + waits.verdict + waits.group + waits.step +
              static_cast<std::int64_t>(batch.samples.size()) ==
          static_cast<std::int64_t>(head_->in_flight()));
    const auto form = head_->batch_form().to_json();
    CHECK(form["completions"]["tokens_max"] > 0);
    CHECK(form["groups"]["count"] > 0);
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
    return {order.version, order.folder, "", order.incarnation};
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
  std::map<std::pair<incarnation_id, weights_version>, int> steps_made;
  int masked_samples = 0;  ///< of the steps made, with a token that was too old
  int samples_of_two_turns = 0;
  int unjudged = 0;                  ///< samples without a reward
  int with_exemplars = 0;            ///< judged samples whose prompts showed kernels
  int results_checked = 0;           ///< steps whose results were compared
  std::int64_t spoiled_batches = 0;  ///< the first ones of an incarnation have no finite gradient
  std::set<sample_id> left_out;      ///< samples of those
  std::function<void(const train_batch&)> on_batch;  ///< instead of a learner
  std::function<void(const generate_group&)> on_order;
  base::status told;          ///< of the last step that was left out; an error ends `go`
  bool no_reference = false;  ///< evaluators can judge nothing
  std::string given_up;       ///< what the orchestrator said then

 private:
  const run_config& config_;
  base::random_stream random_;
  std::filesystem::path root_;
  std::map<weights_version, base::hash128> weights_;  ///< of this incarnation
  std::optional<storage::run_directory> run_;
  std::unique_ptr<orchestrator> head_;
  std::vector<event> waiting_;
  weights_version installed_ = 0;
  std::uint64_t next_lease_ = 1;
  std::map<sample_id, std::string> kinds_;  ///< verdicts
};

/// A run that dies at some moment in each of its first three lives: what was not committed is gone.
/// `check` looks at the one in which it ends.
inline void check_after_deaths(const fixture& f, const std::filesystem::path& root,
                               std::uint64_t seed, const std::function<void(world&)>& check) {
  for (int life = 0;; ++life) {
    REQUIRE(life < 50);
    world w(f.config, *f.tasks, root, life == 0, seed * 100 + static_cast<std::uint64_t>(life));
    const auto end = w.go(life < 3 ? static_cast<int>(2 + seed % 7) : 5000);
    if (!end) continue;
    CHECK(end->finished);
    return check(w);
  }
}

inline void check_end(world& w, std::int64_t steps) {
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
inline weights_version paused_at(const fixture& f, const std::filesystem::path& root, int most,
                                 std::uint64_t seed) {
  world w(f.config, *f.tasks, root, true, seed);
  REQUIRE_FALSE(w.go(most));
  w.head().drain(ending::pause);
  const auto end = w.go();
  REQUIRE(end);
  CHECK_FALSE(end->finished);
  CHECK(static_cast<ending>(end->ending_kind) == ending::pause);
  CHECK(w.head().counts()->of(storage::sample_state::consumed) == 0);
  CHECK(w.head().close());
  return w.head().version();
}

/// One of the lines has all the parts.
inline bool warned(const std::vector<std::string>& lines, const std::vector<std::string>& parts) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return std::all_of(parts.begin(), parts.end(),
                       [&](const std::string& part) { return test::contains(line, part); });
  });
}

}  // namespace quern::test
