// One set of tensors for each of many calls.
#include "env/gpu/slots.hpp"

namespace quern::env {
namespace {

constexpr std::uint64_t up_to(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

std::uint64_t guarded_workspace_bytes(std::uint64_t workspace_bytes) {
  return workspace_offset + up_to(workspace_bytes, 4) + guard_bytes;
}

void set_workspace_guards(device_context& context, std::uint64_t base,
                          std::uint64_t workspace_bytes) {
  context.set(base, workspace_offset, guard_word);
  context.set(base + workspace_offset + up_to(workspace_bytes, 4), guard_bytes, guard_word);
}

std::size_t check_workspace_guards(device_context& context, std::uint64_t base,
                                   std::uint64_t workspace_bytes) {
  context.check_pattern(base, workspace_offset, guard_word);
  context.check_pattern(base + workspace_offset + up_to(workspace_bytes, 4), guard_bytes,
                        guard_word);
  return 2;
}

slot_layout::slot_layout(std::span<const tensor_layout> tensors) {
  std::uint64_t at = 0;
  for (const auto& t : tensors) {
    guards_.emplace_back(at, up_to(at + guard_bytes, tensor_alignment) - at);
    at = up_to(at + guard_bytes, tensor_alignment);
    offsets_.push_back(at);
    // A tensor whose size is no multiple of 4 bytes leaves up to 3 unguarded.
    at = up_to(at + static_cast<std::uint64_t>(t.bytes), 4);
  }
  guards_.emplace_back(at, up_to(at + guard_bytes, tensor_alignment) - at);
  stride_ = up_to(at + guard_bytes, tensor_alignment);
}

void slot_view::set_guards(device_context& context) const {
  for (std::int64_t s = 0; s < slots_; ++s)
    for (const auto& [offset, bytes] : layout_.guards())
      context.set(base_ + static_cast<std::uint64_t>(s) * layout_.stride() + offset, bytes,
                  guard_word);
}

std::size_t slot_view::check_guards(device_context& context) const {
  std::size_t checks = 0;
  for (std::int64_t s = 0; s < slots_; ++s)
    for (const auto& [offset, bytes] : layout_.guards()) {
      context.check_pattern(base_ + static_cast<std::uint64_t>(s) * layout_.stride() + offset,
                            bytes, guard_word);
      ++checks;
    }
  return checks;
}

}  // namespace quern::env
