// Windows with more samples than evaluators can be given at once: the orchestrator beside the
// scheduler that it feeds, with the queue that a run has.
#include <set>

#include "actors/config/sample_window.hpp"
#include "actors/decide/evaluation_scheduler.hpp"
#include "actors/defaults.hpp"
#include "actors/orchestrator/rollout.hpp"
#include "env/prompt/completion.hpp"
#include "env/verdict/verdict.hpp"
#include "tests/actors/orchestrator/orchestrator_fixture.hpp"

using namespace quern;
using namespace quern::actors;
using test::fixture;
using test::weights_of;

namespace {

/// A head whose generator answers at once, and a scheduler with the jobs that it orders.
class fed_scheduler {
 public:
  fed_scheduler(const fixture& f, const std::filesystem::path& root, bool fresh)
      : config_(f.config) {
    auto opened =
        fresh ? storage::run_directory::create(root, "quern_config: 2\n", base::json::object())
              : storage::run_directory::open(root);
    REQUIRE(opened);
    run_.emplace(std::move(*opened));
    auto made = orchestrator::open(config_, *run_, *f.tasks, "cpp-avx2");
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    head = std::move(*made);
    evaluation_scheduler::limits limits(
        {retry_limits::within(config_.env.max_attempts), 60'000'000'000});
    limits.queue.queue = defaults::evaluation_queue;
    scheduler.emplace(head->incarnation(), limits);
    REQUIRE(head->on_weights(head->incarnation(), head->version(), weights_of(head->version())));
  }

  /// One round of orders: samples are made, candidates go to the scheduler. Whether anything was
  /// ordered.
  bool turn() {
    head->generators(1000, head->version());
    const auto orders = head->advance();
    REQUIRE_MESSAGE(orders, (orders ? "" : orders.error().message));
    end = orders->end;
    for (const generate_group& group : orders->generate)
      for (const sample_id sample : group.samples)
        REQUIRE(head->on_generated(made_of(group, sample)));
    for (const completion_order& order : orders->judge) {
      const auto read = read_completion(order, {config_.env.protocol, "cpp-avx2"});
      const auto& candidate = std::get<evaluate_sample>(read);
      const auto queued =
          scheduler->submit({candidate.sample, "cpp", "c", std::nullopt, candidate.turn});
      REQUIRE_MESSAGE(queued, (queued ? "" : queued.error().message));
      ordered.push_back(candidate.sample);
      tasks_[candidate.sample] = candidate.task;
    }
    most_waiting = std::max(most_waiting, scheduler->queue().waiting());
    return !orders->generate.empty() || !orders->judge.empty();
  }

  /// An evaluator asks for `jobs` more, and gets them.
  std::vector<job_order> take(std::int64_t jobs) {
    if (scheduler->queue().hosts() == 0)
      REQUIRE(scheduler->host_joined(1, {{"cpp"}, {{0, "c", 100'000}}}));
    REQUIRE(scheduler->credit({1, 0}, scheduler->queue().granted({1, 0}) + jobs));
    std::vector<job_order> got;
    while (const auto order = scheduler->next(0))
      got.push_back(*order);
    return got;
  }

  void answer(const job_order& job) {
    const auto result = scheduler->verdict(1, job.held.id, env::verdict_kind::wrong_value, 0);
    REQUIRE(result.outcome == lease_outcome::accepted);
    env::verdict verdict;
    verdict.kind = env::verdict_kind::wrong_value;
    verdict.task = tasks_.at(result.sample);
    verdict.source = base::to_hex(base::xxh128("int v;\n"));
    verdict.protocol = config_.env.protocol;
    verdict.device_class = "cpp-avx2";
    sample_verdict news;
    news.incarnation = head->incarnation();
    news.sample = result.sample;
    news.lease = job.held.id;
    news.json = base::dump(env::to_json(verdict));
    REQUIRE(head->on_verdict(news));
    scheduler->committed(job.held.id);
  }

  std::int64_t in_state(storage::sample_state state) const {
    const auto counts = head->counts();
    REQUIRE(counts);
    CHECK(counts->law_holds());
    return counts->of(state);
  }

  std::unique_ptr<orchestrator> head;
  std::optional<evaluation_scheduler> scheduler;
  std::optional<drained> end;
  std::vector<sample_id> ordered;
  std::size_t most_waiting = 0;

 private:
  generated_sample made_of(const generate_group& group, sample_id sample) const {
    generated_sample made;
    made.incarnation = group.incarnation;
    made.sample = sample;
    made.tokens = to_block<std::int32_t>({1, 2, 3});
    made.segments = single_turn(2, 1);
    made.log_probs = to_block<float>({-1});
    made.versions = {{0, head->version(), weights_of(head->version())}};
    made.text = env::render_completion({"a", "b", "int v;\n"}, "cpp");
    return made;
  }

  const run_config& config_;
  std::optional<storage::run_directory> run_;
  std::map<sample_id, std::string> tasks_;
};

/// No prompt shows kernels, so that no group waits for one to be timed.
void set_window(run_config& config, std::int64_t group_size, std::int64_t groups_per_step) {
  config.algorithm.group_size = group_size;
  config.algorithm.groups_per_step = groups_per_step;
  config.actors.staleness = 2;
  config.learner.steps = 3;
  config.replay.without_exemplars_share = 1;
}

}  // namespace

TEST_CASE("a window of more than 10,000 samples waits for its evaluators, and all are judged") {
  fixture f;
  set_window(f.config, 64, 53);
  const auto samples = static_cast<std::size_t>(samples_under_way(f.config));
  REQUIRE(samples == 10'176);
  fed_scheduler run(f, f.folder.path() / "wide", true);
  while (run.turn()) {
  }
  // As many as the queue takes, the oldest first; the others are durable and wait in the ledger.
  CHECK(run.scheduler->queue().waiting() == defaults::evaluation_queue);
  CHECK(run.in_state(storage::sample_state::generated) == 10'176);
  CHECK(std::is_sorted(run.ordered.begin(), run.ordered.end()));
  std::size_t judged = 0;
  while (judged < samples) {
    const auto jobs = run.take(1500);
    REQUIRE_FALSE(jobs.empty());
    for (const job_order& job : jobs)
      run.answer(job);
    judged += jobs.size();
    while (run.turn()) {
    }
  }
  CHECK(run.most_waiting == defaults::evaluation_queue);
  CHECK(run.scheduler->idle());
  CHECK(std::set<sample_id>(run.ordered.begin(), run.ordered.end()).size() == samples);
  CHECK(run.ordered.size() == samples);
  CHECK(run.in_state(storage::sample_state::admitted) == 10'176);
}

TEST_CASE(
    "the plan says how many samples may be under way, and how many of them are judged at once") {
  run_config config;
  CHECK(samples_under_way(config) == 3 * 2 * 8);
  CHECK(describe_window(config) == "# at most 48 samples are under way\n");
  set_window(config, 64, 40);
  CHECK(describe_window(config) ==
        "# at most 7680 samples are under way; 4096 of them are with the evaluators at once, the "
        "others stay generated\n");
}

TEST_CASE("a pause takes 2,000 queued candidates back and waits for the two that run") {
  fixture f;
  set_window(f.config, 167, 4);
  const std::filesystem::path root = f.folder.path() / "paused";
  std::set<sample_id> left;
  {
    fed_scheduler run(f, root, true);
    while (run.turn()) {
    }
    const auto running = run.take(2);
    REQUIRE(running.size() == 2);
    REQUIRE(run.scheduler->queue().waiting() == 2'002);
    run.head->drain(ending::pause);
    run.turn();
    CHECK_FALSE(run.end);
    const auto samples = run.scheduler->withdraw_waiting();
    CHECK(samples.size() == 2'002);
    run.head->on_withdrawn({run.head->incarnation(), samples});
    CHECK_FALSE(run.turn());
    CHECK_FALSE(run.end);
    run.answer(running[0]);
    run.turn();
    CHECK_FALSE(run.end);
    run.answer(running[1]);
    run.turn();
    REQUIRE(run.end);
    CHECK(static_cast<ending>(run.end->ending_kind) == ending::pause);
    CHECK(run.scheduler->idle());
    CHECK(run.in_state(storage::sample_state::generated) == 2'002);
    CHECK(run.in_state(storage::sample_state::evaluated) == 2);
    CHECK(run.in_state(storage::sample_state::dropped) == 0);
    left.insert(samples.begin(), samples.end());
    REQUIRE(run.head->close());
  }
  // They have their tokens, and are judged when the run goes on.
  fed_scheduler run(f, root, false);
  run.turn();
  CHECK(std::set<sample_id>(run.ordered.begin(), run.ordered.end()) == left);
}

TEST_CASE("what an older incarnation's dispatcher gives back says nothing about this one") {
  fixture f;
  set_window(f.config, 4, 2);
  fed_scheduler run(f, f.folder.path() / "incarnations", true);
  while (run.turn()) {
  }
  const auto running = run.take(1);
  REQUIRE(running.size() == 1);
  run.head->drain(ending::pause);
  const sample_id held = running[0].held.sample;
  run.head->on_withdrawn({run.head->incarnation() - 1, {held}});
  run.head->on_withdrawn({run.head->incarnation(), run.scheduler->withdraw_waiting()});
  run.turn();
  CHECK_FALSE(run.end);
  run.answer(running[0]);
  run.turn();
  CHECK(run.end);
}
