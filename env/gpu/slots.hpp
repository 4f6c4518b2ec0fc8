// One set of tensors for each of many calls in one stretch of device memory, with guard zones
// between them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "env/gpu/device_context.hpp"
#include "env/runner/gpu_protocol.hpp"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {

/// Bytes before, between and behind tensors that nobody may write.
inline constexpr std::uint64_t guard_bytes = 4096;
inline constexpr std::uint32_t guard_word = 0x6B63A1F7;
/// Address unit of every tensor.
inline constexpr std::uint64_t tensor_alignment = 256;

/// A workspace lies behind one guard and before another, which ends with the last byte given here.
inline constexpr std::uint64_t workspace_offset = guard_bytes;
std::uint64_t guarded_workspace_bytes(std::uint64_t workspace_bytes);
/// Queues the guards' pattern, or its check: two findings.
void set_workspace_guards(device_context& context, std::uint64_t base,
                          std::uint64_t workspace_bytes);
std::size_t check_workspace_guards(device_context& context, std::uint64_t base,
                                   std::uint64_t workspace_bytes);

/// Where tensors lie inside a slot; the same for every number of slots. Plain value.
class slot_layout {
 public:
  slot_layout() = default;
  explicit slot_layout(std::span<const tensor_layout> tensors);

  [[nodiscard]] std::uint64_t offset(std::size_t tensor) const { return offsets_[tensor]; }
  [[nodiscard]] std::uint64_t stride() const { return stride_; }
  [[nodiscard]] std::size_t tensors() const { return offsets_.size(); }
  /// Guard zones of one slot: (offset, bytes), words of 4 bytes.
  [[nodiscard]] std::span<const std::pair<std::uint64_t, std::uint64_t>> guards() const {
    return guards_;
  }

 private:
  std::vector<std::uint64_t> offsets_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> guards_;
  std::uint64_t stride_ = 0;
};

/// `slots` sets of the tensors from `base` on, in memory of somebody else. Plain value.
class slot_view {
 public:
  slot_view() = default;
  slot_view(std::uint64_t base, std::span<const tensor_layout> tensors, std::int64_t slots)
      : base_(base), layout_(tensors), slots_(slots) {}

  [[nodiscard]] std::int64_t slots() const { return slots_; }
  [[nodiscard]] const slot_layout& layout() const { return layout_; }
  [[nodiscard]] std::uint64_t bytes() const {
    return layout_.stride() * static_cast<std::uint64_t>(slots_);
  }
  [[nodiscard]] std::uint64_t at(std::size_t tensor, std::int64_t slot) const {
    return base_ + layout_.offset(tensor) + static_cast<std::uint64_t>(slot) * layout_.stride();
  }

  /// Queues the guard pattern for all slots, or its check: one finding a slot and guard.
  void set_guards(device_context& context) const;
  std::size_t check_guards(device_context& context) const;

 private:
  std::uint64_t base_ = 0;
  slot_layout layout_;
  std::int64_t slots_ = 0;
};

}  // namespace quern::env
