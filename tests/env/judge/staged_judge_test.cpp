// evaluate(), which all lanes share, over evaluations that a test scripts.
#include "env/judge/staged_judge.hpp"

#include <functional>

#include "env/judge/cost_model.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/lanes/pytorch/pytorch_lane.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;

namespace {

std::shared_ptr<const task> subject_of(const lane& where) {
  auto made = std::make_shared<task>();
  made->name = "t";
  made->lane = &where;
  return made;
}

evaluation_request request_of(const lane& where = cuda_lane) {
  evaluation_request request;
  request.subject = subject_of(where);
  request.source = "void kernel() {}";
  return request;
}

/// How one evaluation of a scripted judge ends.
struct scripted_end {
  finding found;
  interruption why = interruption::none;
  bool used_device = true;
};

class scripted_evaluation final : public staged_evaluation {
 public:
  scripted_evaluation(const evaluation_request& request, const measure_name& how, verdict& v,
                      scripted_end end, int& alive)
      : staged_evaluation(request, how, v), end_(std::move(end)), alive_(alive) {
    ++alive_;
  }
  ~scripted_evaluation() override { --alive_; }
  void run() override {
    used_device_ = end_.used_device;
    if (settle(end_.found) && is_measured(request_, measure_)) {
      verdict_.speedup_e2 = 150;
      verdict_.time.emplace();
    }
  }
  [[nodiscard]] interruption interrupted() const override { return end_.why; }

 private:
  scripted_end end_;
  int& alive_;
};

/// Evaluations end as `ends` says, one after the other, the last one for ever.
class scripted_judge final : public staged_judge {
 public:
  explicit scripted_judge(const env::lane& of) : staged_judge(options_, seconds_), lane_(of) {
    options_.remeasure_probability = 0;
  }
  void warm_up() override {}
  void compile_ahead(const evaluation_request&) override {}
  [[nodiscard]] const env::lane& lane() const override { return lane_; }
  [[nodiscard]] const std::string& device_class() const override { return class_; }
  [[nodiscard]] const std::string& environment() const override { return environment_; }
  [[nodiscard]] std::optional<device_trouble> trouble() const override { return in_trouble; }

  std::optional<device_trouble> in_trouble;
  std::vector<scripted_end> ends{{{verdict_kind::ok, "", "", std::nullopt}}};
  std::function<void(verdict&)> looked = [](verdict&) {};
  std::string suffix;
  int begun = 0, renewed = 0, looks = 0, alive = 0, most_alive = 0;
  evaluator_options options_;

 private:
  std::unique_ptr<staged_evaluation> begin(const evaluation_request& request,
                                           const measure_name& how, verdict& v) override {
    CHECK(how.baseline != baseline_choice::of_task);
    const auto at = std::min<std::size_t>(static_cast<std::size_t>(begun++), ends.size() - 1);
    auto one = std::make_unique<scripted_evaluation>(request, how, v, ends[at], alive);
    most_alive = std::max(most_alive, alive);
    return one;
  }
  base::expected<baseline_terms> terms_of(baseline_choice baseline) override {
    if (baseline == baseline_choice::compile)
      return base::fail(base::errc::unavailable, "there is no such compiler here");
    return baseline_terms{"settings of " + std::string(name_of(baseline)),
                          baseline == baseline_choice::graph ? "of graphs" : environment_};
  }
  [[nodiscard]] std::string key_suffix(const evaluation_request&) const override { return suffix; }
  void renew_reference() override { ++renewed; }
  void look_after(verdict& v, runner::cause) override {
    ++looks;
    looked(v);
  }

  const env::lane& lane_;
  std::string class_ = "a class", environment_ = "an environment";
  stage_seconds seconds_;
};

const finding ok_finding{verdict_kind::ok, "", "", std::nullopt};
const finding lost{verdict_kind::infra_error, "", "somebody ended it", std::nullopt};

}  // namespace

TEST_CASE("a judge on a core refuses by name what its lane has on a GPU alone") {
  for (const char* asked : {"kernelbench/1", "cuda_l1_train/1", "cuda_l1_report/1",
                            "paired/1@graph", "paired/1@reduce-overhead"}) {
    CAPTURE(asked);
    auto request = request_of(pytorch_lane);
    request.protocol = asked;
    scripted_judge on_core(pytorch_lane), on_gpu(pytorch_lane);
    on_gpu.options_.on_gpu = true;
    const verdict refused = on_core.evaluate(request);
    CHECK(refused.kind == verdict_kind::infra_error);
    CHECK_MESSAGE(test::contains(refused.detail, "pytorch on a core"), refused.detail);
    CHECK_MESSAGE(test::contains(refused.detail, "pytorch on a GPU has it"), refused.detail);
    CHECK(on_core.begun == 0);
    // The control.
    CHECK(on_gpu.evaluate(request).kind == verdict_kind::ok);
    CHECK(on_gpu.begun == 1);
  }
}

TEST_CASE("what is not of the lane is refused unjudged, with what there is") {
  scripted_judge judge(cuda_lane);
  const auto refused = [&](const evaluation_request& request, const char* word) {
    const verdict v = judge.evaluate(request);
    CHECK(v.kind == verdict_kind::infra_error);
    CHECK_FALSE(v.baseline);
    CHECK_MESSAGE(v.detail.find(word) != std::string::npos, v.detail);
  };
  refused(request_of(cpp_lane), "is of lane cpp; this evaluator has lane cuda");
  auto asked = request_of();
  asked.protocol = "stopwatch/1";
  refused(asked, "stopwatch/1");
  asked.protocol = "paired/1@compile";
  refused(asked, "no such compiler");
  scripted_judge other(cpp_lane);
  auto foreign = request_of(cpp_lane);
  foreign.protocol = "kernelbench/1";
  CHECK(contains(other.evaluate(foreign).detail, "no protocol of lane cpp"));
  foreign.protocol = "paired/1@graph";
  CHECK(contains(other.evaluate(foreign).detail, "; lane cuda, lane pytorch on a GPU has it"));
  CHECK(judge.begun + other.begun == 0);
  CHECK(judge.looks + other.looks == 0);
  CHECK(judge.stages().evaluations == 3);
}

TEST_CASE("a verdict names what it was measured over, and nothing where nothing was") {
  scripted_judge judge(cuda_lane);
  auto request = request_of();
  verdict v = judge.evaluate(request);
  REQUIRE(v.baseline);
  CHECK(v.baseline->settings == "settings of eager");
  CHECK(v.env == "an environment");
  CHECK(v.speedup_e2 == 150);
  request.protocol = "paired/1@graph";
  v = judge.evaluate(request);
  CHECK(v.baseline->settings == "settings of graph");
  CHECK(v.env == "of graphs");
  request.verify_only = true;
  v = judge.evaluate(request);
  CHECK_FALSE(v.baseline);
  CHECK(v.env == "an environment");
  CHECK_FALSE(v.speedup_e2);
}

TEST_CASE("in every lane that has the cost model it gives the score of what is right") {
  for (const lane* where : {&cpp_lane, &cuda_lane}) {
    CAPTURE(where->name);
    scripted_judge judge(*where);
    auto request = request_of(*where);
    for (const char* protocol : {"cost_model/1", "cost_model"}) {
      request.protocol = protocol;
      const verdict v = judge.evaluate(request);
      CHECK(v.speedup_e2 == cost_model_e2(task_id(*request.subject), request.source));
      CHECK_FALSE(v.time);
      CHECK_FALSE(v.baseline);
    }
    request.verify_only = true;
    CHECK_FALSE(judge.evaluate(request).speedup_e2);
    scripted_judge wrong(*where);
    wrong.ends = {{{verdict_kind::wrong_value, "", "", std::nullopt}}};
    request.verify_only = false;
    CHECK_FALSE(wrong.evaluate(request).speedup_e2);
  }
}

TEST_CASE("a verdict is evaluated once, and again for whatever may change it") {
  scripted_judge judge(cuda_lane);
  const auto request = request_of();
  CHECK_FALSE(judge.evaluate(request).cached);
  CHECK(judge.evaluate(request).cached);
  CHECK(judge.stages().cache_hits == 1);
  const auto fresh = [&](const evaluation_request& asked) {
    return !judge.evaluate(asked).cached && judge.evaluate(asked).cached;
  };
  auto other = request;
  other.verify_only = true;
  CHECK(fresh(other));
  other = request;
  other.protocol = "kernelbench/1";
  CHECK(fresh(other));
  other.protocol = "paired/1@graph";
  CHECK(fresh(other));
  judge.suffix = "+host_entry";
  CHECK(fresh(request));
  judge.options_.static_screen = false;
  CHECK(fresh(request));
  other = request;
  other.recheck = true;
  CHECK_FALSE(judge.evaluate(other).cached);
}

TEST_CASE("an interrupted evaluation is made once more from its beginning") {
  scripted_judge judge(cpp_lane);
  judge.ends = {{lost, interruption::candidate_ended}, {ok_finding}};
  const verdict v = judge.evaluate(request_of(cpp_lane));
  CHECK(v.kind == verdict_kind::ok);
  CHECK(v.detail.empty());
  CHECK(v.baseline);
  CHECK(judge.begun == 2);
  CHECK(judge.renewed == 0);
  // One holds the device when the other begins: never.
  CHECK(judge.most_alive == 1);
  CHECK(judge.looks == 1);

  scripted_judge again(cpp_lane);
  again.ends = {{lost, interruption::reference_lost},
                {lost, interruption::candidate_ended},
                {lost, interruption::candidate_ended},
                {ok_finding}};
  CHECK(again.evaluate(request_of(cpp_lane)).kind == verdict_kind::infra_error);
  CHECK(again.begun == 3);
  CHECK(again.renewed == 1);
  CHECK(again.looks == 1);
}

TEST_CASE("the device is looked after before a verdict is kept, and only where it was used") {
  scripted_judge judge(cuda_lane);
  judge.looked = [](verdict& v) { v.kind = verdict_kind::infra_error; };
  const auto request = request_of();
  CHECK(judge.evaluate(request).kind == verdict_kind::infra_error);
  // What the device was to blame for is not kept against the candidate, nor for it.
  judge.looked = [](verdict&) {};
  const verdict v = judge.evaluate(request);
  CHECK(v.kind == verdict_kind::ok);
  CHECK_FALSE(v.cached);

  scripted_judge unused(cuda_lane);
  unused.ends = {
      {{verdict_kind::rejected_static, "x", "", std::nullopt}, interruption::none, false}};
  unused.evaluate(request);
  CHECK(unused.looks == 0);
}

TEST_CASE("an evaluation whose limit is over is a timeout, whatever it found") {
  const auto limited = [](double seconds, finding found) {
    scripted_judge judge(cuda_lane);
    judge.ends = {{std::move(found), interruption::candidate_ended}};
    // Over before the evaluation begins: no clock is asked how fast this machine is.
    auto request = request_of();
    request.time_limit_s = seconds;
    const verdict v = judge.evaluate(request);
    CHECK(judge.begun == (seconds < 1 ? 1 : 2));
    CHECK(judge.looks == 1);
    CHECK(judge.renewed == (seconds < 1 ? 1 : 0));
    return v;
  };
  const verdict cut = limited(1e-9, ok_finding);
  CHECK(cut.kind == verdict_kind::timeout);
  CHECK(cut.reason == whole_evaluation);
  CHECK(cut.detail == "the whole evaluation took longer than its limit of 1e-09 s");
  CHECK_FALSE(cut.speedup_e2);
  // The control: the same with time enough.
  CHECK(limited(3600, ok_finding).kind == verdict_kind::ok);
  CHECK(limited(3600, ok_finding).speedup_e2 == 150);

  // The host's failure is a timeout, too, unless the device is in trouble.
  CHECK(limited(1e-9, lost).kind == verdict_kind::timeout);
  scripted_judge broken(cuda_lane);
  broken.ends = {{lost}};
  broken.in_trouble = device_trouble{"it does not compute", 0};
  auto request = request_of();
  request.time_limit_s = 1e-9;
  CHECK(broken.evaluate(request).kind == verdict_kind::infra_error);
  broken.ends = {{ok_finding}};
  CHECK(broken.evaluate(request).kind == verdict_kind::timeout);

  const finding unbuilt{verdict_kind::timeout, "compile", "not in time", std::nullopt};
  CHECK(limited(1e-9, unbuilt).reason == "compile");
  const finding unverified{verdict_kind::timeout, "verify", "2 s", std::nullopt};
  const verdict late = limited(1e-9, unverified);
  CHECK(late.reason == whole_evaluation);
  CHECK(late.detail.ends_with("limit of 1e-09 s; verify: 2 s"));
  CHECK(limited(3600, unverified).reason == "verify");
}

TEST_CASE("environment_for: the host's own for a task's baseline, else that of the baseline") {
  scripted_judge judge(cuda_lane);
  CHECK(judge.environment_for("paired/1").value() == "an environment");
  CHECK(judge.environment_for("paired/1@graph").value() == "of graphs");
  CHECK_FALSE(judge.environment_for("paired/1@compile"));
  CHECK_FALSE(judge.environment_for("stopwatch/1"));
}
