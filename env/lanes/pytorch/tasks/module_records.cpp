#include "env/lanes/pytorch/tasks/module_records.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include <fmt/ranges.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace quern::env {

namespace {

namespace fs = std::filesystem;
using column_list = std::span<const std::string_view>;

constexpr auto module_columns =
    std::to_array<std::string_view>({"ref_code", "original_code", "code"});
constexpr auto level_columns =
    std::to_array<std::string_view>({"level", "level_id", "problem_level"});
constexpr auto problem_columns = std::to_array<std::string_view>({"problem_id", "task_id"});
constexpr auto name_columns = std::to_array<std::string_view>({"name", "problem_name"});
constexpr auto solution_columns = std::to_array<std::string_view>(
    {"custom_code", "cuda_graph_code", "cudnn_code", "kernel_code"});

constexpr std::size_t max_records_bytes = std::size_t{256} << 20U;

/// The value of the first column that is there and not null.
const base::json* first_column_of(const base::json& record, column_list columns) {
  for (const std::string_view column : columns) {
    const auto found = record.find(column);
    if (found != record.end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

/// A number, or the number at the end of a text such as "level_1".
base::expected<std::optional<int>> column_number_of(const base::json& record, column_list columns) {
  const base::json* value = first_column_of(record, columns);
  if (value == nullptr) return std::optional<int>();
  std::string digits = value->is_string() ? value->get<std::string>() : base::dump(*value);
  const bool is_number = value->is_string() || value->is_number_integer();
  if (value->is_string()) {
    const std::size_t last = digits.find_last_not_of("0123456789");
    digits.erase(0, last == std::string::npos ? 0 : last + 1);
  }
  int number = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (!is_number || code != std::errc() || end != digits.data() + digits.size() || number < 0)
    return base::fail(base::errc::invalid_argument, "{} is {}, it must be a number of at least 0",
                      fmt::join(columns, " or "), base::dump(*value).substr(0, 80));
  return std::optional(number);
}

/// Title and place, by what the record says.
base::status place_record(const base::json& record, module_record& to) {
  QUERN_TRY(const auto level, column_number_of(record, level_columns));
  QUERN_TRY(auto problem, column_number_of(record, problem_columns));
  std::string name;
  if (const base::json* found = first_column_of(record, name_columns)) {
    if (!found->is_string())
      return base::fail(base::errc::invalid_argument, "{} is {}, it must be text",
                        fmt::join(name_columns, " or "), base::dump(*found).substr(0, 80));
    name = found->get<std::string>();
  }
  to.module.title = name;
  if (const auto numbered = numbered_title_of(name)) {
    if (!problem) problem = numbered->number;
    if (level && problem == numbered->number) to.module.title = numbered->title;
  }
  if (to.module.title.ends_with(".py")) to.module.title.resize(to.module.title.size() - 3);
  if (level) to.module.family = fmt::format("level{}", *level);
  if (!level || !problem) return {};
  std::string file = name.empty() ? fmt::format("{}", *problem) : name;
  if (!file.ends_with(".py")) file += ".py";
  to.module.place = benchmark_place{*level, *problem, std::move(file)};
  return {};
}

base::expected<module_record> module_record_of(const base::json& record, std::size_t number) {
  if (!record.is_object())
    return base::fail(base::errc::invalid_argument, "it is no JSON object, as a record is");
  module_record made;
  made.number = number;
  const base::json* module = first_column_of(record, module_columns);
  if (module == nullptr || !module->is_string())
    return base::fail(base::errc::invalid_argument,
                      "it has no text in {}: one of these columns holds the module of the task",
                      fmt::join(module_columns, ", "));
  made.module.text = module->get<std::string>();
  QUERN_CHECK(place_record(record, made));
  for (const std::string_view column : solution_columns) {
    const auto found = record.find(column);
    if (found == record.end() || !found->is_string()) continue;
    std::string text = found->get<std::string>();
    if (base::trim(text).empty() || base::trim(text) == "None") continue;
    made.candidates.emplace_back(column, std::move(text));
  }
  return made;
}

class record_reader {
 public:
  explicit record_reader(std::string_view name) : name_(name) {}

  base::status add(const base::json& record, std::size_t number, const std::string& where) {
    if (all_.size() >= max_modules)
      return base::fail(base::errc::invalid_argument, "{}: there are more than {} records", where,
                        max_modules);
    auto made = module_record_of(record, number);
    if (!made) return base::in_context(where, std::move(made).error());
    made->module.origin = where;
    all_.push_back(std::move(*made));
    return {};
  }

  base::status add_lines(std::string_view text) {
    std::size_t number = 0;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = base::trim(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      ++number;
      if (line.empty()) continue;
      const std::string where = fmt::format("{} line {}", name_, number);
      const auto record = base::parse_json(line);
      if (!record) return base::in_context(where, record.error());
      QUERN_CHECK(add(*record, number, where));
    }
    return {};
  }

  base::status add_list(const base::json& list, const std::string& where) {
    std::size_t number = 0;
    for (const base::json& record : list) {
      ++number;
      QUERN_CHECK(add(record, number, fmt::format("{} record {}", where, number)));
    }
    return {};
  }

  /// {"1": [...], "2": [...]}: a level has no need to stand in its records, too.
  base::status add_levels(const base::json& levels) {
    for (const auto& [key, list] : levels.items()) {
      if (!list.is_array())
        return base::fail(base::errc::invalid_argument,
                          "{}: '{}' is no list of records, and the whole is no record either: it "
                          "has no text in {}",
                          name_, key.substr(0, 80), fmt::join(module_columns, ", "));
      base::json with_level = list;
      for (base::json& record : with_level)
        if (record.is_object() && first_column_of(record, level_columns) == nullptr)
          record["level"] = key;
      QUERN_CHECK(add_list(with_level, fmt::format("{} '{}'", name_, key.substr(0, 80))));
    }
    return {};
  }

  base::status add_whole(std::string_view text) {
    const auto whole = base::parse_json(text);
    if (!whole) return base::in_context(name_, whole.error());
    if (whole->is_array()) return add_list(*whole, std::string(name_));
    const bool levels = whole->is_object() && first_column_of(*whole, module_columns) == nullptr;
    return levels ? add_levels(*whole) : add(*whole, 1, std::string(name_));
  }

  std::vector<module_record> take() { return std::move(all_); }

 private:
  std::string_view name_;
  std::vector<module_record> all_;
};

/// Whether the first of several lines that are not empty is a value by itself.
bool has_record_lines(std::string_view text) {
  text = base::trim(text);
  const std::size_t end = text.find('\n');
  return end != std::string_view::npos && base::parse_json(text.substr(0, end)).has_value();
}

base::expected<std::vector<module_record>> records_of_file(const fs::path& file) {
  QUERN_TRY(const std::string text, base::read_file(file, max_records_bytes));
  return parse_module_records(text, file.string());
}

}  // namespace

base::expected<std::vector<module_record>> parse_module_records(std::string_view text,
                                                                std::string_view name) {
  record_reader reader(name);
  text = base::without_byte_order_mark(text);
  const bool lines = name.ends_with(".jsonl") || has_record_lines(text);
  QUERN_CHECK(lines ? reader.add_lines(text) : reader.add_whole(text));
  return reader.take();
}

base::expected<suite> read_record_file(const lane& of, const fs::path& file,
                                       const source_options& options) {
  QUERN_TRY(const torch_precision precision, precision_of(options));
  QUERN_TRY(auto records, records_of_file(file));
  module_suite made(of, precision);
  for (module_record& one : records) {
    if (one.module.family.empty()) one.module.family = file.stem().string();
    QUERN_CHECK(made.add(one.module, same_name::take_equal));
  }
  const std::string word = word_of(file.stem().string(), 100);
  return made.finish(word.empty() ? "records" : word, file.string());
}

base::expected<std::vector<bundled_candidate>> read_record_candidates(const fs::path& file) {
  QUERN_TRY(auto records, records_of_file(file));
  std::vector<bundled_candidate> all;
  for (module_record& one : records)
    for (auto& [column, source] : one.candidates)
      all.push_back(
          {module_name(one.module), fmt::format("{}#{}", column, one.number), std::move(source)});
  return all;
}

}  // namespace quern::env
