// Generated tasks of lane cuda and their variants through the evaluator on a device: right ones are
// ok, wrong ones are not, and styles differ in speed. Prints what it saw.
// QUERN_GPU_TASKS: how many tasks (default 60).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "env/grammar/draw.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/grammar/variants.hpp"
#include "env/judge/compile_pool.hpp"
#include "env/lanes/cuda/cuda_evaluator.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/lanes/cuda/grammar/cuda_grammar.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/gpu.hpp"

using namespace quern;

namespace {

constexpr int right_of_task = 6, wrong_of_task = 4;
/// Of the right ones so many are timed; the others are only checked, as a corpus does.
constexpr int timed_of_task = 4;

struct trial {
  std::shared_ptr<const env::task> subject;
  std::string composition;
  env::kernel_variant variant;
  bool timed = false;
};

env::cuda_evaluator* the_evaluator() {
  static std::string problem;
  static const auto opened = [] {
    env::evaluator_options options;
    options.gpu = test::the_gpu();
    options.runner_program = test::program_dir() / "quern-runner";
    options.reference_program = test::program_dir() / "quern-torch";
    options.sandbox_required = false;
    options.time_budget_s = 0.1;
    options.precision = 0.02;
    options.noise_limit = 0.1;
    options.confirm_at_once = true;
    auto made = env::cuda_evaluator::open(options);
    if (!made) problem = made.error().message;
    return made ? std::move(*made) : nullptr;
  }();
  return test::go_on_with_gpu(opened != nullptr, problem) ? opened.get() : nullptr;
}

std::vector<trial> make_trials(int tasks) {
  std::vector<trial> trials;
  env::task_options options;
  options.lane = &env::cuda_lane;
  for (int k = 0; k < tasks; ++k) {
    const auto what =
        env::draw_composition(77, static_cast<std::uint64_t>(k), env::cuda_grammar()->limits());
    const auto subject = std::make_shared<const env::task>(env::make_task(what, options).value());
    const env::composition_probe probe(what);
    const env::variant_supply supply(probe, *env::cuda_grammar());
    for (std::uint64_t d = 0; d < right_of_task + wrong_of_task; ++d) {
      const bool right = d < right_of_task;
      trials.push_back(
          {subject, env::to_text(what), supply.draw(5, d, right ? 0 : 1), d < timed_of_task});
    }
    // The baseline is a candidate, too: against itself it is 1.
    if (k % 4 == 0) {
      env::kernel_variant plain{env::tensors_of(*subject).plain, "plain", env::kernel_error::none,
                                true};
      trials.push_back({subject, env::to_text(what), plain, true});
    }
  }
  return trials;
}

std::string short_of(const env::verdict& v) {
  std::string text(env::name_of(v.kind));
  if (!v.reason.empty()) text += ":" + v.reason;
  return text;
}

struct spread {
  double logs = 0, rewards = 0;
  int count = 0;
  double least = 1e9, most = 0;
  void add(double speed) {
    logs += std::log(speed);
    rewards += std::min(3.0, speed);
    ++count;
    least = std::min(least, speed);
    most = std::max(most, speed);
  }
};

void print(const char* title, const std::map<std::string, spread>& table) {
  fmt::print("{:<22} {:>6} {:>8} {:>7} {:>7} {:>8}\n", title, "count", "geomean", "least", "most",
             "reward");
  for (const auto& [word, of] : table)
    fmt::print("  {:<20} {:>6} {:>8.2f} {:>7.2f} {:>7.2f} {:>8.2f}\n", word, of.count,
               std::exp(of.logs / of.count), of.least, of.most, of.rewards / of.count);
}

}  // namespace

TEST_CASE("generated kernels on a device do what they are meant to do, at different speeds") {
  env::cuda_evaluator* with = the_evaluator();
  if (with == nullptr) return;
  const char* asked = std::getenv("QUERN_GPU_TASKS");
  const int tasks = asked != nullptr ? std::max(1, std::atoi(asked)) : 60;
  const base::steady_clock clock;
  const auto started = clock.now_ns();
  const auto trials = make_trials(tasks);
  fmt::print("{} tasks, {} candidates made in {:.1f} s\n", tasks, trials.size(),
             static_cast<double>(clock.now_ns() - started) * 1e-9);
  with->warm_up();
  const auto requests = [&](const trial& of) {
    env::evaluation_request request;
    request.subject = of.subject;
    request.source = of.variant.source;
    request.verify_only = !of.timed;
    return request;
  };
  const int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 2U, 14U));
  env::compile_pool ahead(*with, threads);
  for (const trial& one : trials)
    ahead.add(requests(one));
  std::map<std::string, spread> by_word, by_family;
  std::map<std::string, std::map<std::string, int>> outcomes;
  std::vector<std::string> surprises;
  std::vector<double> baselines;
  int right = 0, right_ok = 0, wrong = 0, wrong_ok = 0;
  const auto begun = clock.now_ns();
  for (const trial& one : trials) {
    const env::verdict v = with->evaluate(requests(one));
    const bool ok = v.kind == env::verdict_kind::ok;
    const std::string error(env::name_of(one.variant.error));
    ++outcomes[error][short_of(v)];
    if (one.variant.intended_correct) {
      ++right;
      // What could not be measured well was found right before.
      right_ok += ok || v.kind == env::verdict_kind::noisy ? 1 : 0;
    } else if (one.variant.error != env::kernel_error::missing_barrier) {
      ++wrong;
      wrong_ok += ok ? 1 : 0;
    }
    if (ok != one.variant.intended_correct && surprises.size() < 12)
      surprises.push_back(fmt::format("{} [{}] {}: {} {}\nsizes {}x{}\n{}", one.composition,
                                      one.variant.style, error, short_of(v), v.detail,
                                      env::tensors_of(*one.subject).sizes[0],
                                      env::tensors_of(*one.subject).sizes[1], one.variant.source));
    if (!ok || !v.speedup_e2) continue;
    const double speed = static_cast<double>(*v.speedup_e2) / 100;
    for (const std::string_view word : base::split(one.variant.style, ' '))
      by_word[std::string(word)].add(std::max(speed, 0.01));
    by_family[one.subject->family].add(std::max(speed, 0.01));
    if (v.time && !v.time->ref_ns.empty())
      baselines.push_back(static_cast<double>(v.time->ref_ns.front()) / 1000);
  }
  const double seconds = static_cast<double>(clock.now_ns() - begun) * 1e-9;
  fmt::print("{:.1f} s, {:.0f} ms a candidate; right: {} of {} ok, wrong: {} of {} ok\n", seconds,
             1000 * seconds / static_cast<double>(trials.size()), right_ok, right, wrong_ok, wrong);
  for (const auto& [error, kinds] : outcomes)
    for (const auto& [kind, count] : kinds)
      fmt::print("  {:<16} {:<28} {}\n", error, kind, count);
  print("speed-up by word", by_word);
  print("by family", by_family);
  std::sort(baselines.begin(), baselines.end());
  if (!baselines.empty())
    fmt::print("baselines: {:.0f} us at least, {:.0f} us median, {:.0f} us at most\n",
               baselines.front(), baselines[baselines.size() / 2], baselines.back());
  const auto stages = with->stages();
  fmt::print(
      "seconds: screen {:.1f}, compile {:.1f}, start {:.1f}, verify {:.1f}, probe {:.1f}, "
      "time {:.1f}, again {:.1f}\n",
      stages.screen, stages.compile, stages.start, stages.verify, stages.probe, stages.time,
      stages.reverify);
  for (const std::string& surprise : surprises)
    fmt::print("SURPRISE {}\n", surprise);
  CHECK(right_ok >= right * 97 / 100);
  CHECK(wrong_ok == 0);
  CHECK(by_word.at("fused").most > 1.3);
}
