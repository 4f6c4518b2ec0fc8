// Times of a reference that is a module, on a core, for tables of baselines.
#pragma once

#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "env/task/reference_timer.hpp"

namespace quern::env {

/// One sandboxed process a reference, as it is timed beside candidates: the same core, thread and
/// cache, one call a question. `zygote` outlives it.
class module_timer final : public reference_timer {
 public:
  explicit module_timer(python_zygote& zygote) : zygote_(zygote) {}

  [[nodiscard]] base::status check_mode(reference_mode mode) const override;
  [[nodiscard]] std::string device() const override { return "cpu"; }
  [[nodiscard]] std::string device_class() const override;
  [[nodiscard]] std::string settings() const override;
  base::expected<std::vector<std::int64_t>> time(const task& what, reference_mode mode,
                                                 const reference_trials& rule) override;

 private:
  python_zygote& zygote_;
};

}  // namespace quern::env
