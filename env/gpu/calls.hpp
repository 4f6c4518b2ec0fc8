// Calls of one task instance as runners are told of them: where tensors lie, what content they get.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "env/gpu/lent_memory.hpp"
#include "env/gpu/slots.hpp"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {

/// A task at one choice of sizes on a device: one slot of inputs, many of outputs. Plain value.
struct device_instance {
  task_instance at;
  slot_layout inputs, outputs;
  /// Row 0: timed distributions; then the hidden rounds of the task, as many as fit.
  std::vector<std::string> rounds;  ///< names for messages: "normal", "large/sparse", …
  quern_tensors tensors{};

  [[nodiscard]] lent_bytes needs(std::int64_t slots, std::uint64_t workspace_bytes) const;
};

base::expected<device_instance> make_device_instance(const task& what,
                                                     std::span<const std::int64_t> sizes);

/// Where a candidate finds its arguments, for the host-entry form and references.
runner::gpu_call_request call_request(const device_instance& of, bool has_workspace);

/// Whether the time of a call with this content counts: content of the timed distributions, with so
/// few elements of others that they do not show.
bool counts_in_time(const quern_order& order, const device_instance& of);

/// Within what a call with this content has to be right. Nobody knows what rounding does to every
/// mixture: where elements of another distribution were planted only what is grossly wrong counts,
/// as it is where a kernel left something out.
tolerance limit_of(const quern_order& order, const device_instance& of, const tolerance& limit);

/// Draws what calls are told: content that nobody can foresee, poison that nobody can know.
class order_maker {
 public:
  /// `secret`: from the operating system.
  explicit order_maker(std::uint64_t secret) : random_(secret, "orders") {}

  /// Fresh content of round `round` in slot `slot`.
  quern_order fresh(std::int32_t round, std::int32_t slot);
  /// The content of `other` again, in another slot, on other poison.
  quern_order again(const quern_order& other, std::int32_t slot);
  /// The content of `other` with one element of one input changed.
  quern_order changed(const quern_order& other, const device_instance& of, std::int32_t slot);
  /// Puts elements of another of the task's distributions into the content: single ones, up to a
  /// thousand of them, or (a share `stretches` of the times) stretches of up to a quarter of the
  /// input in all. Where they lie is secret: a kernel that looks at some elements to find out what
  /// it may leave out must not be right by that. Does nothing where the input that was drawn has no
  /// other distribution, or none that rounding lets it be mixed with.
  void plant(quern_order& order, const device_instance& of, double stretches = 0.5);
  base::random_stream& random() { return random_; }

 private:
  std::uint32_t poison();
  std::int32_t input_to_plant(const device_instance& of);
  /// -1: the input has none to be planted into this round.
  std::int32_t kind_to_plant(const device_instance& of, std::int32_t round, std::int32_t input);
  base::random_stream random_;
};

}  // namespace quern::env
