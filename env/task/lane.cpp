// Questions about lanes that their facts answer.
#include "env/task/lane.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "env/task/lane_on_gpus.hpp"
#include "env/task/task.hpp"

namespace quern::env {

const lane* find_lane(std::string_view name) {
  for (const lane* one : all_lanes())
    if (one->name == name) return one;
  return nullptr;
}

std::vector<std::string_view> lane_names() {
  std::vector<std::string_view> names;
  for (const lane* one : all_lanes())
    names.push_back(one->name);
  return names;
}

namespace {

template <class Value>
bool is_one_of(std::span<const Value> list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// "; lane NAME has it", on a GPU where it has it there alone; nothing where none has.
template <class Value, class Of>
std::string who_has(const Of& of, const Value& value) {
  std::vector<std::string> names;
  for (const lane* one : all_lanes()) {
    if (is_one_of(of(*one, false), value))
      names.emplace_back(one->name);
    else if (is_one_of(of(*one, true), value))
      names.push_back(fmt::format("{} on a GPU", one->name));
  }
  if (names.empty()) return {};
  return fmt::format("; lane {} has it", fmt::join(names, ", lane "));
}

/// With the device, where it has two.
std::string name_there(const lane& where, bool on_gpu) {
  if (where.on_gpus_too == nullptr) return std::string(where.name);
  return fmt::format("{} on a {}", where.name, on_gpu ? "GPU" : "core");
}

}  // namespace

baseline_choice own_baseline(const task& what) {
  return what.baseline == baseline_kind::plain ? baseline_choice::plain : baseline_choice::eager;
}

base::status check_baseline(const lane& where, bool on_gpu, baseline_choice asked) {
  // A task has eager or plain of its own; which one, its file says.
  std::vector<baseline_choice> known{baseline_choice::of_task, baseline_choice::eager,
                                     baseline_choice::plain};
  for (const baseline_choice one : baselines_on(where, on_gpu))
    if (!is_one_of(std::span<const baseline_choice>(known), one)) known.push_back(one);
  if (is_one_of(std::span<const baseline_choice>(known), asked)) return {};
  std::vector<std::string_view> names;
  for (const baseline_choice one : known)
    names.push_back(name_of(one));
  return base::fail(base::errc::invalid_argument, "'{}' is no baseline of lane {}, which has {}{}",
                    name_of(asked), name_there(where, on_gpu), fmt::join(names, ", "),
                    who_has(baselines_on, asked));
}

base::status check_baseline(const task& subject, bool on_gpu, baseline_choice asked) {
  const lane& where = *subject.lane;
  if (asked == baseline_choice::of_task || asked == own_baseline(subject) ||
      is_one_of(baselines_on(where, on_gpu), asked))
    return {};
  std::string others;
  for (const baseline_choice one : baselines_on(where, on_gpu))
    if (one != own_baseline(subject)) others += fmt::format(", {}", name_of(one));
  return base::fail(
      base::errc::invalid_argument,
      "'{}' is asked for, but tasks of lane {} have the baseline of their file, which "
      "is '{}' for {}: say task{}{}",
      name_of(asked), name_there(where, on_gpu), name_of(own_baseline(subject)), subject.name,
      others, who_has(baselines_on, asked));
}

base::status check_protocol(const lane& where, bool on_gpu, std::string_view protocol) {
  if (is_one_of(protocols_on(where, on_gpu), protocol)) return {};
  return base::fail(base::errc::invalid_argument, "'{}' is no protocol of lane {}, which has {}{}",
                    protocol, name_there(where, on_gpu),
                    fmt::join(protocols_on(where, on_gpu), ", "), who_has(protocols_on, protocol));
}

}  // namespace quern::env
