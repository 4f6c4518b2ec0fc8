#include "env/lanes/pytorch/tasks/module_import.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/text.hpp"
#include "env/task/task_codec.hpp"

namespace quern::env {

namespace {

constexpr std::size_t max_module_name = 100;
constexpr std::size_t max_module_family = 50;

bool is_module_word_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/// A word that begins with a letter, as names of tasks and families do.
std::string module_identifier(std::string_view title, std::string_view otherwise,
                              std::size_t longest) {
  std::string word = word_of(title, longest);
  if (word.empty()) return std::string(otherwise);
  if (word[0] >= 'a' && word[0] <= 'z') return word;
  return word_of(std::string(otherwise) + "_" + word, longest);
}

}  // namespace

std::string word_of(std::string_view title, std::size_t longest) {
  std::string word;
  for (const char given : title) {
    if (word.size() >= longest) break;
    const char c = given >= 'A' && given <= 'Z' ? static_cast<char>(given - 'A' + 'a') : given;
    if (is_module_word_byte(c))
      word += c;
    else if (!word.empty() && word.back() != '_')
      word += '_';
  }
  while (!word.empty() && word.back() == '_')
    word.pop_back();
  return word;
}

std::string module_name(const python_module& from) {
  if (!from.place) return module_identifier(from.title, "task", max_module_name);
  const std::string number = fmt::format("level{}_{}", from.place->level, from.place->problem);
  const std::string word = word_of(from.title, max_module_name - number.size() - 1);
  return word.empty() ? number : number + "_" + word;
}

std::optional<numbered_title> numbered_title_of(std::string_view file_name) {
  if (file_name.ends_with(".py")) file_name.remove_suffix(3);
  numbered_title result;
  const char* end = file_name.data() + file_name.size();
  if (file_name.empty() || file_name[0] < '0' || file_name[0] > '9') return std::nullopt;
  const auto [behind, code] = std::from_chars(file_name.data(), end, result.number);
  if (code != std::errc() || behind == end || *behind != '_') return std::nullopt;
  result.title.assign(behind + 1, end);
  return result;
}

base::expected<task> import_module(const lane& of, const python_module& from,
                                   torch_precision precision) {
  auto body = std::make_shared<pytorch_body>();
  body->precision = precision;
  body->place = from.place;
  task made;
  made.lane = &of;
  made.name = module_name(from);
  made.family = module_identifier(from.family, "modules", max_module_family);
  made.tolerance = usual_tolerance(precision);
  made.reference = canonical_block(base::without_byte_order_mark(from.text));
  body->needs = needs_of(made.reference);
  made.body = std::move(body);
  if (auto checked = validate(made); !checked)
    return base::in_context(from.origin, std::move(checked).error());
  return made;
}

base::expected<torch_precision> precision_of(const source_options& options) {
  if (options.precision.empty()) return torch_precision::fp32;
  if (const auto known = parse_precision(options.precision)) return *known;
  return base::fail(base::errc::invalid_argument,
                    "'{}' is no precision of tasks that are Python modules: say fp32, fp16 or bf16",
                    options.precision);
}

base::status module_suite::add(const python_module& from, same_name rule) {
  if (all_.size() >= max_modules)
    return base::fail(base::errc::invalid_argument,
                      "{}: there are more than {} tasks: name a part of them", from.origin,
                      max_modules);
  QUERN_TRY(task made, import_module(lane_, from, precision_));
  const auto there = all_.find(made.name);
  if (there == all_.end()) {
    std::string name = made.name;
    all_.emplace(std::move(name), added{std::move(made), from.origin});
    return {};
  }
  if (rule == same_name::take_equal && there->second.task == made) return {};
  return base::fail(base::errc::invalid_argument,
                    "{} and {} are both task {}: leave one out, or give it another name",
                    there->second.origin, from.origin, made.name);
}

base::expected<suite> module_suite::finish(std::string name, std::string_view where) {
  if (all_.empty())
    return base::fail(base::errc::invalid_argument,
                      "{} has no Python module that is a task: name another file or folder", where);
  suite made;
  made.name = std::move(name);
  made.recheck_above_e2 = lane_.usual_recheck_above_e2;
  for (auto& [task_name, one] : all_) {
    std::string id = task_id(one.task);
    std::optional<benchmark_place> place = pytorch_of(one.task).place;
    made.members.push_back({std::move(one.task), std::move(id), false, std::move(place)});
  }
  return made;
}

}  // namespace quern::env
