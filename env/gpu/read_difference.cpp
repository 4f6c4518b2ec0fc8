// Elements of tensors on a device, for a verdict.
#include "env/gpu/read_difference.hpp"

#include <array>
#include <span>

#include "env/judge/compare.hpp"

namespace quern::env {

first_difference read_difference(device_context& context, const tensor_layout& layout,
                                 std::uint64_t got_at, std::uint64_t want_at, std::uint64_t index) {
  const auto width = size_of(layout.type);
  std::array<std::byte, 8> got{}, want{};
  (void)context.read(std::span(got).first(width), got_at + index * width);
  (void)context.read(std::span(want).first(width), want_at + index * width);
  return difference_between(layout, index, std::span(got).first(width),
                            std::span(want).first(width));
}

}  // namespace quern::env
