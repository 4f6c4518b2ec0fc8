// A judge that notes how long each evaluation holds its device, and by which steps.
#pragma once

#include <vector>

#include "base/clock.hpp"
#include "env/judge/judge.hpp"
#include "env/measure/step_clock.hpp"

namespace quern::tools {

/// Hands everything on to another judge, which outlives it. Thread-compatible as that one is.
class held_judge final : public env::candidate_judge {
 public:
  /// `steps`: where that judge notes them; null: it does not.
  explicit held_judge(env::candidate_judge& of, const env::step_seconds* steps = nullptr)
      : judge_(of), noted_(steps) {}

  env::verdict evaluate(const env::evaluation_request& request) override {
    const auto begun = clock_.now_ns();
    const double elsewhere = without_device_s();
    env::step_seconds before = noted();
    env::verdict v = judge_.evaluate(request);
    env::step_seconds& took = steps_.emplace_back(noted());
    for (auto& [step, seconds] : took)
      seconds -= before[step];
    std::erase_if(took, [](const auto& step) { return step.second == 0; });
    const double all = static_cast<double>(clock_.now_ns() - begun) * 1e-9;
    held_s_.push_back(all - (without_device_s() - elsewhere));
    return v;
  }
  void warm_up() override { judge_.warm_up(); }
  void compile_ahead(const env::evaluation_request& request) override {
    judge_.compile_ahead(request);
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
  /// Seconds of each step of each evaluation, in order.
  [[nodiscard]] const std::vector<env::step_seconds>& steps() const { return steps_; }

 private:
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
  std::vector<double> held_s_;
  std::vector<env::step_seconds> steps_;
};

}  // namespace quern::tools
