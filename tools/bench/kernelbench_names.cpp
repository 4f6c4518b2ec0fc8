#include "tools/bench/kernelbench_names.hpp"

#include <charconv>
#include <optional>

namespace quern::tools {
namespace {

using base::errc;

constexpr std::string_view name_begins = "level_", name_ends = "_kernel.py";
constexpr std::size_t most_digits = 9;

bool cut_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<int> cut_number(std::string_view& text) {
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9')
    ++digits;
  if (digits == 0 || digits > most_digits || (digits > 1 && text[0] == '0')) return std::nullopt;
  int value = 0;
  std::from_chars(text.data(), text.data() + digits, value);
  text.remove_prefix(digits);
  return value;
}

std::optional<kernelbench_sample> sample_in(std::string_view name) {
  if (!cut_prefix(name, name_begins)) return std::nullopt;
  const auto level = cut_number(name);
  if (!level || *level == 0 || !cut_prefix(name, "_problem_")) return std::nullopt;
  const auto problem = cut_number(name);
  if (!problem || !cut_prefix(name, "_sample_")) return std::nullopt;
  const auto sample = cut_number(name);
  if (!sample || name != name_ends) return std::nullopt;
  return kernelbench_sample{*level, *problem, *sample};
}

}  // namespace

bool is_kernelbench_name(std::string_view name) {
  return name.starts_with(name_begins) && name.ends_with(name_ends) &&
         name.find("problem_") != std::string_view::npos;
}

base::expected<kernelbench_sample> parse_kernelbench_name(std::string_view name) {
  if (const auto found = sample_in(name)) return *found;
  return base::fail(errc::invalid_argument,
                    "the name '{}' is not level_L_problem_P_sample_S_kernel.py with whole numbers "
                    "of at most {} digits without leading zeros: rename the file",
                    name.substr(0, 200), most_digits);
}

suite_places::suite_places(const env::suite& suite) : suite_(suite) {
  for (std::size_t i = 0; i < suite.members.size(); ++i)
    if (const auto& place = suite.members[i].place)
      members_[{place->level, place->problem}].push_back(i);
}

base::expected<std::size_t> suite_places::member_at(int level, int problem) const {
  const auto found = members_.find({level, problem});
  if (members_.empty())
    return base::fail(errc::not_found, "the tasks of suite {} have no place in KernelBench",
                      suite_.name);
  if (found == members_.end())
    return base::fail(errc::not_found, "the suite {} has no task at level {} problem {}",
                      suite_.name, level, problem);
  const auto& there = found->second;
  if (there.size() > 1)
    return base::fail(errc::invalid_argument,
                      "the suite {} has the tasks {} and {} at level {} problem {}: name a suite "
                      "with one of them",
                      suite_.name, suite_.members[there[0]].task.name,
                      suite_.members[there[1]].task.name, level, problem);
  return there.front();
}

base::status suite_places::check_all() const {
  for (const env::suite_member& member : suite_.members) {
    if (!member.place)
      return base::fail(
          errc::invalid_argument,
          "task {} of suite {} has no place in KernelBench: use a suite of its tasks, "
          "such as kernelbench:1, or leave the option out",
          member.task.name, suite_.name);
    QUERN_CHECK(member_at(member.place->level, member.place->problem));
  }
  return {};
}

std::vector<int> suite_places::levels() const {
  std::vector<int> all;
  for (const auto& [place, unused] : members_)
    if (all.empty() || all.back() != place.first) all.push_back(place.first);
  return all;
}

}  // namespace quern::tools
