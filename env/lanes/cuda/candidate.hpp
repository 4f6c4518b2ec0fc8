// A built candidate in a runner: loading it, telling it what a call is, what its failures mean.
#pragma once

#include <cstdint>
#include <string>

#include "env/gpu/device_candidate.hpp"
#include "env/lanes/cuda/build.hpp"

namespace quern::env {

/// Most scratch that a candidate may ask for, bytes.
inline constexpr std::int64_t most_workspace_bytes = std::int64_t{8} << 30;

/// One candidate in one runner. Thread-compatible.
class loaded_candidate final : public device_candidate {
 public:
  /// `memory`: of a process of the candidate's own, which outlives this object; else null.
  loaded_candidate(gpu_runner_process& process, std::size_t output_buffer,
                   const built_candidate& what, process_memory* memory = nullptr)
      : process_(&process), output_buffer_(output_buffer), built_(&what), memory_(memory) {}

  /// A shared object's constructors run now.
  finding load() override;
  finding prepare(device_context& context, lent_memory& memory, const device_instance& of,
                  std::int32_t slots) override;
  /// Host-entry form: a thread more than before the candidate was loaded is the candidate's.
  finding look() override;
  finding explain(const runner_failure& failure, const std::string& stage) override;

  [[nodiscard]] std::int64_t workspace_bytes() const override { return workspace_bytes_; }
  [[nodiscard]] gpu_link& link() override { return process_->link(); }
  [[nodiscard]] std::size_t output_buffer() const override { return output_buffer_; }
  [[nodiscard]] bool gated() const override { return built_->form == cuda_form::device_only; }
  [[nodiscard]] process_memory* memory() const override { return memory_; }
  [[nodiscard]] bool spoilt() const override { return spoilt_; }

 private:
  finding ask_workspace(const device_instance& of);

  gpu_runner_process* process_;
  std::size_t output_buffer_;
  const built_candidate* built_;
  process_memory* memory_;
  bool has_workspace_entry_ = false;
  int threads_ = 0;  ///< of the process before the candidate was loaded
  bool spoilt_ = false;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace quern::env
