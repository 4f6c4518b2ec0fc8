// The process of one candidate or reference of this lane, as env/core times it.
#pragma once

#include <string>

#include "base/status.hpp"
#include "env/core/core_process.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"

namespace quern::env {

/// Owns the child, which ends with this object. `zygote` outlives it.
class module_process final : public core_process {
 public:
  module_process(python_zygote& zygote, python_child child)
      : zygote_(zygote), child_(std::move(child)) {}

  [[nodiscard]] python_child& child() { return child_; }
  [[nodiscard]] runner_link& link() override { return child_.link(); }
  [[nodiscard]] layer_set layers() const override { return child_.layers(); }
  [[nodiscard]] bool refusals_are_its_own() const override { return true; }
  [[nodiscard]] bool may_lack_functions() const override { return false; }
  child_end end() override;

 private:
  python_zygote& zygote_;
  python_child child_;
  std::optional<child_end> ended_;
};

}  // namespace quern::env
