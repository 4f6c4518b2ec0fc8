// Checks and clock over processes and a task that belong to no lane: what env/core asks is enough.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "env/core/forked_process.hpp"
#include "env/core/timing.hpp"
#include "env/core/window_outputs.hpp"
#include "env/judge/core_lock.hpp"
#include "env/judge/runner_end.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;
using test::forked_process;

namespace {

constexpr std::uint64_t seed = 7;
constexpr tolerance limit{1e-6, 1e-5};
constexpr question_limits call_limits{5, 60};

void twice(std::span<const float> x, std::span<float> y) {
  std::transform(x.begin(), x.end(), y.begin(), [](float v) { return 2 * v; });
}

void thrice(std::span<const float> x, std::span<float> y) {
  std::transform(x.begin(), x.end(), y.begin(), [](float v) { return 3 * v; });
}

/// The result of its first call, in every call.
void remembered(std::span<const float> x, std::span<float> y) {
  static std::vector<float> first;
  if (first.empty()) {
    first.resize(x.size());
    twice(x, first);
  }
  std::copy(first.begin(), first.end(), y.begin());
}

void exits(std::span<const float>, std::span<float>) {
  ::_exit(3);
}

task_instance instance_of(std::int64_t n) {
  tensor_layout x;
  x.name = "x";
  x.shape = {n};
  x.elements = n;
  x.bytes = 4 * n;
  tensor_layout y = x;
  y.name = "y";
  task_instance at;
  at.sizes = {n};
  at.inputs = {x};
  at.outputs = {y};
  return at;
}

expected_case case_of(const task_instance& at, tensor_bytes x, std::string name) {
  tensor_bytes y(x.size());
  const auto count = x.size() / sizeof(float);
  twice({reinterpret_cast<const float*>(x.data()), count},
        {reinterpret_cast<float*>(y.data()), count});
  REQUIRE(std::ssize(x) == at.inputs[0].bytes);
  return {std::move(name), {std::move(x)}, {std::move(y)}};
}

/// Three cases: of two distributions, and the first with one element changed.
expected_size size_of_cases(std::int64_t n, std::uint32_t first_round) {
  expected_size size;
  size.instance = instance_of(n);
  for (const auto kind : {distribution::normal, distribution::large}) {
    tensor_bytes x(static_cast<std::size_t>(4 * n));
    REQUIRE(fill_input(size.instance.inputs[0], kind, {seed, 0, first_round++}, x));
    size.cases.push_back(case_of(size.instance, std::move(x), "drawn"));
  }
  auto changed = size.cases.front().inputs;
  change_one_element(size.instance, changed, seed);
  size.cases.push_back(case_of(size.instance, std::move(changed[0]), "one element changed"));
  return size;
}

/// y = 2 x, without a text, a body or a lane.
core_task doubling() {
  core_task made;
  made.hidden.push_back(size_of_cases(100, 10));
  made.timed = size_of_cases(4096, 0);
  made.timed_content = {{distribution::normal, {seed, 0, 0}}};
  return made;
}

/// Right in six calls: the cases of size_of_cases, the first of them twice more, and one in a row.
void twice_at_first(std::span<const float> x, std::span<float> y) {
  static int calls = 0;
  ++calls;
  calls < 7 ? twice(x, y) : thrice(x, y);
}

/// Measures for a tenth of a second. The candidate is loaded.
timing_result time_against(const baseline_side& baseline, forked_process& candidate) {
  const core_task task = doubling();
  const auto core = core_choice::choose(-1).value();
  const auto lease = core_lease::take(core.core(), 60).value();
  candidate_checker checker(candidate, call_limits);
  REQUIRE(checker.load("anything").ok());
  timing_request request;
  request.task = &task;
  request.limit = limit;
  request.baseline = baseline;
  request.candidate = &candidate;
  request.checker = &checker;
  request.order_seed = 5;
  request.first_call = 1000;
  request.budget_s = 0.1;
  return time_candidate(request);
}

}  // namespace

TEST_CASE("a process of no lane is checked: every case of a size, and what its end means") {
  const core_task task = doubling();
  std::vector<check_result> checks;
  forked_process right(twice);
  candidate_checker checker(right, call_limits);
  REQUIRE(checker.load("anything").ok());
  CHECK(checker.check_size(task.hidden[0], limit, checks).ok());
  CHECK(checks.size() == 4);
  CHECK(checker.probe(task.timed, limit, checks).ok());
  CHECK(checker.call_ns() > 0);

  forked_process wrong(thrice);
  CHECK(candidate_checker(wrong, call_limits).check_size(task.hidden[0], limit, checks).kind ==
        verdict_kind::wrong_value);
  forked_process stale(remembered);
  const auto kept = candidate_checker(stale, call_limits).check_size(task.hidden[0], limit, checks);
  CHECK(kept.kind == verdict_kind::hack);
  CHECK(kept.reason == name_of(hack_kind::stale_output));
  forked_process gone(exits);
  const auto ended = candidate_checker(gone, call_limits).check_size(task.hidden[0], limit, checks);
  CHECK(ended.kind == verdict_kind::runtime_error);
  CHECK(ended.reason == end_reason::ended);
  CHECK(gone.end().code == 3);
}

TEST_CASE("calls that depend on those before are checked as one question, each of them") {
  expected_size size = size_of_cases(100, 10);
  size.in_a_row = size.cases;
  for (std::size_t c = 0; c < size.in_a_row.size(); ++c)
    size.in_a_row[c].name = fmt::format("call {} in a row", c + 1);
  std::vector<check_result> checks;
  forked_process right(twice);
  CHECK(candidate_checker(right, call_limits).check_size(size, limit, checks).ok());
  CHECK(checks.back().name == "hidden: calls in a row");
  // The first of them is right, and so is all that comes before.
  forked_process late(twice_at_first);
  const auto found = candidate_checker(late, call_limits).check_size(size, limit, checks);
  CHECK(found.kind == verdict_kind::wrong_value);
  CHECK(test::contains(found.detail, "call 2 in a row"));
  // Control: without them nothing is found.
  size.in_a_row.clear();
  forked_process again(twice_at_first);
  CHECK(candidate_checker(again, call_limits).check_size(size, limit, checks).ok());
}

TEST_CASE("a hidden call that depends on those before is compared with the baseline's") {
  expected_size timed = size_of_cases(100, 10);
  const expected_case& hidden = timed.cases[1];
  const auto arena_with = [&](const tensor_bytes& bytes) {
    auto made = tensor_arena::create(memory_use::outputs, timed.instance.outputs, 1).value();
    std::ranges::copy(bytes, made.at(0, 0).begin());
    return made;
  };
  const auto wanted = arena_with(hidden.want[0]), other = arena_with(timed.cases[0].want[0]);
  const auto kind = [&](const tensor_arena& candidate, const tensor_arena& baseline) {
    return check_hidden_call(timed, hidden, limit, 0, candidate, baseline).kind;
  };
  CHECK(kind(wanted, other) == verdict_kind::ok);
  CHECK(kind(other, other) == verdict_kind::wrong_value);
  timed.in_a_row = timed.cases;
  CHECK(kind(other, other) == verdict_kind::ok);
  CHECK(kind(wanted, other) == verdict_kind::wrong_value);
}

TEST_CASE("a candidate is timed against a reference of its lane, which writes outputs when asked") {
  forked_process reference(twice, true);
  forked_process candidate(twice);
  const auto told = time_against(baseline_side::of_reference(reference.link(), true), candidate);
  CHECK_MESSAGE(told.outcome.ok(), told.outcome.detail);
  CHECK(told.calls_per_window >= 2);
  CHECK(told.next_call > 1000);
  CHECK(told.baseline_ns > 0);
  CHECK_FALSE(told.baseline_gone);

  // Control: not asked, it writes nothing, and what it left behind is no result.
  forked_process unasked(twice, true);
  forked_process another(twice);
  CHECK(time_against(baseline_side::of_reference(unasked.link(), false), another).outcome.kind ==
        verdict_kind::wrong_value);
}

TEST_CASE("timed calls have contents of their own: a result that is kept is another call's") {
  forked_process reference(twice);
  forked_process candidate(remembered);
  const auto told = time_against(baseline_side::of_reference(reference.link(), false), candidate);
  CHECK(told.outcome.kind == verdict_kind::hack);
  CHECK(told.outcome.reason == name_of(hack_kind::stale_output));
}

TEST_CASE("a reference that ends is this host's failure, and said to be gone") {
  forked_process reference(exits);
  forked_process candidate(twice);
  const auto told = time_against(baseline_side::of_reference(reference.link(), false), candidate);
  CHECK(told.outcome.kind == verdict_kind::infra_error);
  CHECK(told.baseline_gone);
}

TEST_CASE("a plain kernel is a baseline where it computes what the reference does") {
  forked_process right(twice);
  forked_process candidate(twice);
  const auto told = time_against(baseline_side::of_plain(right, "anything"), candidate);
  CHECK_MESSAGE(told.outcome.ok(), told.outcome.detail);

  forked_process wrong(thrice);
  forked_process another(twice);
  CHECK(time_against(baseline_side::of_plain(wrong, "anything"), another).outcome.kind ==
        verdict_kind::invalid_reference);
}
