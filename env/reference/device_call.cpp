// Where the tensors of a reference's calls lie on a device.
#include "env/reference/device_call.hpp"

#include <algorithm>

#include "env/tensor_task/dtype.hpp"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {
namespace {

using runner::gpu_call_request;
using runner::tensor_place;

constexpr std::uint32_t dtypes = static_cast<std::uint32_t>(dtype::f16) + 1;

/// The type in which tensor `t` lies in memory.
dtype type_in_memory(const gpu_call_request& call, std::size_t t) {
  const auto type = static_cast<dtype>(call.tensors[t].type);
  const bool widened = call.in_f64 != 0 && t >= call.inputs && is_floating(type);
  return widened ? dtype::f64 : type;
}

/// Bytes of a tensor of at most max_tensor_bytes; more are all the same.
std::uint64_t bytes_of_place(const gpu_call_request& call, std::size_t t) {
  constexpr auto limit = static_cast<std::uint64_t>(max_tensor_bytes) * 8;
  const auto& place = call.tensors[t];
  std::uint64_t bytes = size_of(type_in_memory(call, t));
  for (std::uint32_t i = 0; i < place.rank; ++i) {
    const auto n = static_cast<std::uint64_t>(place.shape[i]);
    if (n == 0) return 0;
    if (bytes > limit / n) return limit + 1;
    bytes *= n;
  }
  return bytes;
}

base::status check_tensor(const gpu_call_request& call, std::size_t t) {
  const auto& place = call.tensors[t];
  if (place.type >= dtypes)
    return base::fail(base::errc::invalid_argument, "tensor {} has type {}", t, place.type);
  if (place.rank > place.shape.size() ||
      std::any_of(place.shape.begin(), place.shape.begin() + place.rank,
                  [](std::int64_t n) { return n < 0; }))
    return base::fail(base::errc::invalid_argument, "tensor {} has no shape", t);
  if (place.file >= QUERN_REGIONS)
    return base::fail(base::errc::invalid_argument, "tensor {} is in region {}, the last is {}", t,
                      place.file, QUERN_REGIONS - 1);
  const std::uint64_t unit = size_of(type_in_memory(call, t));
  if (place.offset % unit != 0 || place.stride % unit != 0)
    return base::fail(base::errc::invalid_argument,
                      "tensor {} has offset {} and stride {}, no multiples of its {} bytes", t,
                      place.offset, place.stride, unit);
  if (call.under_graph != 0 && t < call.inputs && place.stride != 0)
    return base::fail(base::errc::invalid_argument,
                      "input {} moves from slot to slot, a graph's addresses do not", t);
  return {};
}

tensor_view view_of(const gpu_call_request& call, std::size_t t, std::int32_t slot,
                    const mapped_regions& regions) {
  const auto& place = call.tensors[t];
  const std::uint64_t address =
      regions[place.file].address + place.offset + static_cast<std::uint64_t>(slot) * place.stride;
  return {type_in_memory(call, t),
          {place.shape.begin(), place.shape.begin() + place.rank},
          reinterpret_cast<void*>(address)};
}

}  // namespace

base::status check_call(const gpu_call_request& call) {
  const std::size_t tensors = std::size_t{call.inputs} + call.outputs;
  if (tensors > runner::max_tensors)
    return base::fail(base::errc::invalid_argument, "{} tensors, the limit is {}", tensors,
                      runner::max_tensors);
  for (std::size_t t = 0; t < tensors; ++t)
    QUERN_CHECK(check_tensor(call, t));
  return {};
}

base::status check_places(const gpu_call_request& call, std::span<const quern_order> orders,
                          const mapped_regions& regions) {
  std::int32_t last = 0;
  for (const auto& order : orders) {
    if (order.slot < 0)
      return base::fail(base::errc::invalid_argument, "slot {} does not exist", order.slot);
    last = std::max(last, order.slot);
  }
  for (std::size_t t = 0; t < std::size_t{call.inputs} + call.outputs; ++t) {
    const auto& place = call.tensors[t];
    const auto& region = regions[place.file];
    const std::uint64_t bytes = bytes_of_place(call, t);
    // Nothing is added before it is known to fit.
    std::uint64_t room = region.bytes;
    const auto take = [&](std::uint64_t n) { return n <= room && (room -= n, true); };
    const auto slots = static_cast<std::uint64_t>(last);
    const bool strides_fit = slots == 0 || place.stride <= room / slots;
    if (region.bytes == 0 || !take(place.offset) || !strides_fit || !take(slots * place.stride) ||
        !take(bytes))
      return base::fail(base::errc::invalid_argument,
                        "tensor {} in slot {} does not lie inside region {} of {} bytes", t, last,
                        place.file, region.bytes);
  }
  return {};
}

void view_inputs(const gpu_call_request& call, std::int32_t slot, const mapped_regions& regions,
                 std::vector<tensor_view>& into) {
  into.clear();
  for (std::size_t t = 0; t < call.inputs; ++t)
    into.push_back(view_of(call, t, slot, regions));
}

void view_outputs(const gpu_call_request& call, std::int32_t slot, const mapped_regions& regions,
                  std::vector<tensor_view>& into) {
  into.clear();
  for (std::size_t t = call.inputs; t < std::size_t{call.inputs} + call.outputs; ++t)
    into.push_back(view_of(call, t, slot, regions));
}

}  // namespace quern::env
