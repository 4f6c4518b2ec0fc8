// What tests of references on a device share: the device's memory, a reference process, and the
// same reference on the processor to compare with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "env/gpu/calls.hpp"
#include "env/gpu/lent_memory.hpp"
#include "env/gpu/reference_process.hpp"
#include "env/runner/reference_service.hpp"
#include "env/sandbox/child.hpp"

namespace quern::test {

/// A reference with its tensors, as lines of a task file.
struct reference_case {
  std::string name;
  std::vector<std::string> inputs;   ///< "dtype: f32, shape: [n, 64], dist: [normal]"
  std::vector<std::string> outputs;  ///< "dtype: f32, shape: [n]"
  std::string body;                  ///< behind "def forward(...):", one line
  double atol = 0, rtol = 0;
  bool in_f64 = false;  ///< floating outputs are then f64 here
  std::int64_t n = 64;
};

using tensor_bytes = std::vector<std::byte>;

/// The case as a task, and its TorchScript text.
env::task task_of(const reference_case& what);
/// By the reference service on the processor.
base::expected<std::vector<tensor_bytes>> on_processor(const reference_case& what,
                                                       const env::task_instance& at,
                                                       const std::vector<tensor_bytes>& inputs);

/// Elements of `got` farther than the case's tolerance from `want`; NaN equals NaN.
std::size_t count_wrong(const reference_case& what, env::dtype type, const tensor_bytes& got,
                        const tensor_bytes& want);

struct window_result {
  env::window_times times;
  std::string failure;  ///< empty: it ran and was delivered
};

/// One device, one reference process.
class reference_bench {
 public:
  /// Null where there is no device; `problem` says why.
  static std::unique_ptr<reference_bench> open(std::string& problem);

  /// Ends the process and starts another; prints how long that took.
  void restart();
  [[nodiscard]] env::gpu_link& link() { return process_->link(); }
  [[nodiscard]] env::gpu_reference_process& process() { return *process_; }
  [[nodiscard]] env::device_context& context() { return *context_; }

  /// Script, places and memory for `slots` calls; empty, or the message of what was refused.
  std::string set_up(const reference_case& what, std::int32_t slots, bool under_graph);
  /// A window over all slots with new content, and its delivery.
  window_result window();
  /// The last window's call in `slot`: its inputs made again and read, its outputs read.
  std::vector<tensor_bytes> inputs_of(std::int32_t slot);
  std::vector<tensor_bytes> outputs_of(std::int32_t slot);
  [[nodiscard]] const env::device_instance& instance() const { return *instance_; }

 private:
  std::unique_ptr<env::device_context> context_;
  std::unique_ptr<env::spawner> children_;
  env::gpu_access access_;
  std::unique_ptr<env::lent_memory> memory_;
  std::unique_ptr<env::gpu_reference_process> process_;
  std::optional<env::device_instance> instance_;
  std::vector<quern_order> orders_;
  env::order_maker maker_{20260101};
};

}  // namespace quern::test
