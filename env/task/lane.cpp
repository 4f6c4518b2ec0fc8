// Questions about lanes that their facts answer.
#include "env/task/lane.hpp"

#include <algorithm>

#include <fmt/ranges.h>

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

/// "; lane NAME has it"; nothing where none has.
template <class Value>
std::string who_has(std::span<const Value> lane::*list, const Value& value) {
  std::vector<std::string_view> names;
  for (const lane* one : all_lanes())
    if (is_one_of(one->*list, value)) names.push_back(one->name);
  if (names.empty()) return {};
  return fmt::format("; lane {} has it", fmt::join(names, ", lane "));
}

}  // namespace

baseline_choice own_baseline(const task& what) {
  return what.baseline == baseline_kind::plain ? baseline_choice::plain : baseline_choice::eager;
}

base::status check_baseline(const lane& where, baseline_choice asked) {
  // A task has eager or plain of its own; which one, its file says.
  std::vector<baseline_choice> known{baseline_choice::of_task, baseline_choice::eager,
                                     baseline_choice::plain};
  for (const baseline_choice one : where.baselines)
    if (!is_one_of(std::span<const baseline_choice>(known), one)) known.push_back(one);
  if (is_one_of(std::span<const baseline_choice>(known), asked)) return {};
  std::vector<std::string_view> names;
  for (const baseline_choice one : known)
    names.push_back(name_of(one));
  return base::fail(base::errc::invalid_argument, "'{}' is no baseline of lane {}, which has {}{}",
                    name_of(asked), where.name, fmt::join(names, ", "),
                    who_has(&lane::baselines, asked));
}

base::status check_baseline(const task& subject, baseline_choice asked) {
  const lane& where = *subject.lane;
  if (asked == baseline_choice::of_task || asked == own_baseline(subject) ||
      is_one_of(where.baselines, asked))
    return {};
  return base::fail(
      base::errc::invalid_argument,
      "'{}' is asked for, but tasks of lane {} have the baseline of their file, which "
      "is '{}' for {}: say task{}",
      name_of(asked), where.name, name_of(own_baseline(subject)), subject.name,
      who_has(&lane::baselines, asked));
}

base::status check_protocol(const lane& where, std::string_view protocol) {
  if (is_one_of(where.protocols, protocol)) return {};
  return base::fail(base::errc::invalid_argument, "'{}' is no protocol of lane {}, which has {}{}",
                    protocol, where.name, fmt::join(where.protocols, ", "),
                    who_has(&lane::protocols, protocol));
}

}  // namespace quern::env
