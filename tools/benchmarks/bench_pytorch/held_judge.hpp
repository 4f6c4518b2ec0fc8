// A judge that notes how long each evaluation holds its device, and by which steps.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "base/clock.hpp"
#include "env/judge/judge.hpp"
#include "env/lanes/pytorch/text/python_facts.hpp"
#include "env/measure/step_clock.hpp"

namespace quern::tools {

/// Hands everything on to another judge, which outlives it. Thread-compatible as that one is.
class held_judge final : public env::candidate_judge {
 public:
  /// `steps`: where that judge notes them; null: it does not.
  explicit held_judge(env::candidate_judge& of, const env::step_seconds* steps = nullptr)
      : judge_(of), noted_(steps) {}

  /// The first evaluation of a task has what was done ahead for it.
  env::verdict evaluate(const env::evaluation_request& request) override {
    env::verdict v;
    taken took = taken_by([&] { v = judge_.evaluate(request); });
    if (const auto ahead = ahead_.extract(request.subject.get()); !ahead.empty())
      add(ahead.mapped(), took);
    held_s_.push_back(took.held_s);
    steps_.push_back(std::move(took.steps));
    return v;
  }
  /// Noted with the task's first evaluation.
  bool prepare_ahead(const env::evaluation_request& request) override {
    bool more = false;
    const taken took = taken_by([&] { more = judge_.prepare_ahead(request); });
    add(took, ahead_[request.subject.get()]);
    return more;
  }
  void warm_up() override { judge_.warm_up(); }
  /// Notes how long it took, where the candidate asks for a build. Any thread.
  void compile_ahead(const env::evaluation_request& request) override {
    const auto begun = clock_.now_ns();
    judge_.compile_ahead(request);
    const auto facts = env::facts_of_python(env::tokenize_python(request.source));
    if (!facts.uses_load && !facts.uses_load_inline && !facts.uses_triton_jit) return;
    const double took = static_cast<double>(clock_.now_ns() - begun) * 1e-9;
    const std::lock_guard lock(guard_);
    built_s_.push_back(took);
  }
  [[nodiscard]] const env::lane& lane() const override { return judge_.lane(); }
  [[nodiscard]] const std::string& device_class() const override { return judge_.device_class(); }
  [[nodiscard]] const std::string& environment() const override { return judge_.environment(); }
  [[nodiscard]] env::stage_seconds stages() const override { return judge_.stages(); }
  [[nodiscard]] std::optional<env::device_trouble> trouble() const override {
    return judge_.trouble();
  }
  void recover() override { judge_.recover(); }

  [[nodiscard]] double waited_for_device_s() const override { return judge_.waited_for_device_s(); }

  /// Seconds of each evaluation for which it has the device, in order.
  [[nodiscard]] const std::vector<double>& held_s() const { return held_s_; }
  /// Seconds in which each candidate that asks for a build had it ahead, as they ended. Not while
  /// any is built.
  [[nodiscard]] const std::vector<double>& built_s() const { return built_s_; }
  /// Seconds of each step of each evaluation, in order.
  [[nodiscard]] const std::vector<env::step_seconds>& steps() const { return steps_; }

 private:
  /// Seconds with the device, and of each step.
  struct taken {
    double held_s = 0;
    env::step_seconds steps;
  };

  /// Adds `what` to `to`, step by step.
  static void add(const taken& what, taken& to) {
    to.held_s += what.held_s;
    for (const auto& [step, seconds] : what.steps)
      to.steps[step] += seconds;
  }

  /// What the other judge took while `work` asked it.
  template <class Work>
  taken taken_by(const Work& work) {
    const auto begun = clock_.now_ns();
    const double elsewhere = without_device_s();
    env::step_seconds before = noted();
    work();
    taken took{0, noted()};
    for (auto& [step, seconds] : took.steps)
      seconds -= before[step];
    std::erase_if(took.steps, [](const auto& step) { return step.second == 0; });
    const double all = static_cast<double>(clock_.now_ns() - begun) * 1e-9;
    took.held_s = all - (without_device_s() - elsewhere);
    return took;
  }

  /// It is given back while compilers run, and others may have it.
  [[nodiscard]] double without_device_s() const {
    return judge_.stages().compile + judge_.waited_for_device_s();
  }

  [[nodiscard]] env::step_seconds noted() const {
    return noted_ == nullptr ? env::step_seconds() : *noted_;
  }

  env::candidate_judge& judge_;
  const env::step_seconds* noted_;
  base::steady_clock clock_;
  /// Of tasks that were not judged since.
  std::map<const env::task*, taken> ahead_;
  /// Of built_s_.
  std::mutex guard_;
  std::vector<double> built_s_;
  std::vector<double> held_s_;
  std::vector<env::step_seconds> steps_;
};

}  // namespace quern::tools
