// Memory of cases, and cases that differ in one element.
#include "env/core/core_task.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/random.hpp"
#include "base/text.hpp"
#include "env/tensor_task/elements.hpp"

namespace quern::env {
namespace {

template <class T, class Change>
void change_in_place(std::byte* element, Change change) {
  T value{};
  std::memcpy(&value, element, sizeof value);
  value = change(value);
  std::memcpy(element, &value, sizeof value);
}

template <class T>
T another(T value) {
  return value == 0 ? T{1} : value * T{1.25};
}

}  // namespace

void draw_timed_inputs(const core_task& of, std::uint64_t first, std::int64_t slots,
                       const tensor_arena& inputs) {
  const task_instance& at = of.timed.instance;
  for (std::int64_t s = 0; s < slots; ++s)
    for (std::size_t i = 0; i < at.inputs.size(); ++i)
      (void)refresh_input(at.inputs[i], of.timed_content[i].kind, of.timed_content[i].where,
                          first + static_cast<std::uint64_t>(s), of.timed.cases[0].inputs[i],
                          inputs.at(i, s));
}

std::size_t bytes_of(const expected_size& size) {
  std::size_t total = 0;
  for (const auto* cases : {&size.cases, &size.in_a_row})
    for (const auto& c : *cases)
      for (const auto* list : {&c.inputs, &c.want})
        for (const auto& t : *list)
          total += t.size();
  return total;
}

std::int64_t bytes_of_call(const task_instance& at) {
  std::int64_t total = 0;
  for (const auto* list : {&at.inputs, &at.outputs})
    for (const tensor_layout& one : *list)
      total += one.bytes;
  return total;
}

base::status check_room(const task_instance& timed, std::int64_t kept,
                        const base::host_memory& machine) {
  const std::int64_t call = bytes_of_call(timed), needed = kept + 4 * call;
  if (needed <= machine.bytes) return {};
  const auto show = [](std::int64_t bytes) {
    return base::human_bytes(static_cast<std::uint64_t>(bytes));
  };
  return base::fail(base::errc::exhausted,
                    "tensors of one call take {}, and to judge it about {} of memory; this machine "
                    "has {}{}: make the task's sizes smaller, or judge it where more memory is",
                    show(call), show(needed), show(machine.bytes),
                    machine.limit.empty() ? "" : " (the limit of " + machine.limit + ")");
}

void change_one_element(const task_instance& instance, std::vector<tensor_bytes>& inputs,
                        std::uint64_t seed) {
  if (inputs.empty()) return;
  base::random_stream random(seed, "one element");
  const std::size_t i = random.below(inputs.size());
  const auto& layout = instance.inputs[i];
  const std::size_t width = size_of(layout.type);
  const std::size_t at = random.below(static_cast<std::uint64_t>(layout.elements)) * width;
  for (int tries = 0; tries < 64; ++tries) {
    const std::size_t from = random.below(static_cast<std::uint64_t>(layout.elements)) * width;
    if (std::memcmp(inputs[i].data() + at, inputs[i].data() + from, width) == 0) continue;
    std::memcpy(inputs[i].data() + at, inputs[i].data() + from, width);
    return;
  }
  std::byte* const element = inputs[i].data() + at;
  visit_element(layout.type, [&](auto type) {
    using T = decltype(type);
    if constexpr (is_floating_element<T>) {
      change_in_place<T>(element, [](T v) { return element_from<T>(another(value_of(v))); });
    } else if (layout.below > 1) {
      // Little endian: the lowest byte alone is 0 or 1, which every bound above 1 allows.
      const bool was_zero = *element == std::byte{0};
      std::fill_n(element, width, std::byte{0});
      *element = was_zero ? std::byte{1} : std::byte{0};
    }
  });
}

}  // namespace quern::env
