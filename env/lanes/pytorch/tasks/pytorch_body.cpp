#include "env/lanes/pytorch/tasks/pytorch_body.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <tuple>

#include <fmt/ranges.h>

#include "base/text.hpp"
#include "env/lanes/pytorch/tasks/python_outline.hpp"
#include "env/task/yaml_reader.hpp"

namespace quern::env {

namespace {

constexpr auto precision_names = std::to_array<std::string_view>({"fp32", "fp16", "bf16"});
constexpr auto need_names = std::to_array<std::string_view>({"module", "weights"});
constexpr auto body_key_names =
    std::to_array<std::string_view>({"precision", "tf32", "needs", "place"});
constexpr auto place_key_names = std::to_array<std::string_view>({"level", "problem", "file"});

constexpr std::size_t max_needs = 64;
constexpr std::size_t max_need_bytes = 200;
constexpr std::size_t max_place_file_bytes = 255;
constexpr int max_benchmark_level = 1000;
constexpr int max_benchmark_problem = 10'000'000;

template <class... Args>
tl::unexpected<base::error> refuse_body(fmt::format_string<Args...> format, Args&&... args) {
  return base::fail(base::errc::invalid_argument, format, std::forward<Args>(args)...);
}

bool is_torch_need_name(std::string_view name) {
  if (name.empty() || name.size() > max_need_bytes) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-' || c == '/';
  });
}

base::expected<torch_need> parse_torch_need(const std::string& text) {
  const std::size_t space = std::min(text.find(' '), text.size());
  const auto kind = std::find(need_names.begin(), need_names.end(), text.substr(0, space));
  if (kind == need_names.end() || space == text.size())
    return refuse_body("needs names '{}': write `module NAME` or `weights NAME`", text);
  return torch_need{static_cast<torch_need::kind>(kind - need_names.begin()),
                    text.substr(space + 1)};
}

base::expected<int> place_number(const yaml_map& map, std::string_view key, int most) {
  QUERN_TRY(const std::int64_t value, map.integer(key));
  if (value < 0 || value > most)
    return refuse_body("{}: '{}' is {}, it must be from 0 to {}", map.where(), key, value, most);
  return static_cast<int>(value);
}

base::expected<benchmark_place> read_benchmark_place(const YAML::Node& node) {
  QUERN_TRY(const yaml_map map, yaml_map::open(node, "place", place_key_names));
  benchmark_place place;
  QUERN_TRY(place.level, place_number(map, "level", max_benchmark_level));
  QUERN_TRY(place.problem, place_number(map, "problem", max_benchmark_problem));
  QUERN_TRY(place.file, map.text("file"));
  return place;
}

base::expected<std::shared_ptr<const task_body>> read_pytorch_body(const yaml_map& file) {
  auto body = std::make_shared<pytorch_body>();
  if (file.has("precision")) {
    QUERN_TRY(const std::string name, file.text("precision"));
    const auto precision = parse_precision(name);
    if (!precision) return not_of(file, "precision", name, precision_names);
    body->precision = *precision;
  }
  if (file.has("tf32")) {
    QUERN_TRY(body->tf32, file.boolean("tf32"));
  }
  if (file.has("needs")) {
    QUERN_TRY(const auto needs, file.texts("needs"));
    for (const std::string& one : needs) {
      QUERN_TRY(torch_need need, parse_torch_need(one));
      body->needs.push_back(std::move(need));
    }
  }
  if (file.has("place")) {
    QUERN_TRY(const YAML::Node node, file.node("place"));
    QUERN_TRY(body->place, read_benchmark_place(node));
  }
  return body;
}

base::status check_torch_needs(const std::vector<torch_need>& needs) {
  if (needs.size() > max_needs)
    return refuse_body("needs has {} entries, at most {} are allowed", needs.size(), max_needs);
  for (std::size_t i = 0; i < needs.size(); ++i) {
    if (!is_torch_need_name(needs[i].name))
      return refuse_body(
          "needs names '{}': a name has 1 to {} letters, digits and the signs _ . - /",
          needs[i].name, max_need_bytes);
    if (std::find(needs.begin(), needs.begin() + static_cast<std::ptrdiff_t>(i), needs[i]) !=
        needs.begin() + static_cast<std::ptrdiff_t>(i))
      return refuse_body("needs names '{}' twice: leave one out", to_text(needs[i]));
  }
  return {};
}

base::status check_benchmark_place(const benchmark_place& place) {
  if (place.level < 0 || place.level > max_benchmark_level || place.problem < 0 ||
      place.problem > max_benchmark_problem)
    return refuse_body("place is level {}, problem {}; levels go to {} and problems to {}",
                       place.level, place.problem, max_benchmark_level, max_benchmark_problem);
  const bool printable = std::all_of(place.file.begin(), place.file.end(), [](char c) {
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
  });
  if (place.file.empty() || place.file.size() > max_place_file_bytes || !printable)
    return refuse_body(
        "place: file is '{}': a name has 1 to {} printable ASCII characters without quotes and "
        "backslashes",
        place.file, max_place_file_bytes);
  return {};
}

base::status check_module_text(const std::string& reference) {
  if (reference.empty())
    return refuse_body("the reference is empty: give the module that defines Model");
  const python_outline outline = outline_of(reference);
  if (!outline.defines("Model"))
    return refuse_body(
        "the reference has no class Model at the left margin{}: it is the module that a "
        "candidate's "
        "ModelNew replaces",
        outline.defines("ModelNew") ? ", it has ModelNew, as candidates have" : "");
  if (!outline.defines("get_inputs"))
    return refuse_body(
        "the reference has no function get_inputs at the left margin: it returns the list of "
        "inputs of one call");
  return {};
}

std::string joined_names(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

constexpr body_format pytorch_format{
    .name = "python module",
    .keys = {.after_family = body_key_names, .after_baseline = {}, .after_reference = {}},
    .reference = reference_text::utf8,
    .read = read_pytorch_body,
};

std::string_view name_of(torch_precision which) {
  return precision_names[static_cast<std::size_t>(which)];
}

std::optional<torch_precision> parse_precision(std::string_view name) {
  const auto found = std::find(precision_names.begin(), precision_names.end(), name);
  if (found == precision_names.end()) return std::nullopt;
  return static_cast<torch_precision>(found - precision_names.begin());
}

tolerance usual_tolerance(torch_precision of) {
  return of == torch_precision::fp32 ? tolerance{1e-4, 1e-4} : tolerance{1e-2, 1e-2};
}

std::string to_text(const torch_need& need) {
  return fmt::format("{} {}", need_names[static_cast<std::size_t>(need.need_kind)], need.name);
}

bool pytorch_body::equals(const task_body& other) const {
  const auto* module = dynamic_cast<const pytorch_body*>(&other);
  const auto value = [](const pytorch_body& of) {
    return std::tie(of.precision, of.tf32, of.needs, of.place);
  };
  return module != nullptr && value(*module) == value(*this);
}

body_text pytorch_body::text() const {
  std::string text = fmt::format("precision: {}\ntf32: {}\n", name_of(precision), tf32);
  if (!needs.empty()) {
    std::vector<std::string> quoted;
    for (const torch_need& one : needs)
      quoted.push_back('"' + to_text(one) + '"');
    text += fmt::format("needs: [{}]\n", joined_names(quoted));
  }
  if (place)
    text += fmt::format("place: {{level: {}, problem: {}, file: \"{}\"}}\n", place->level,
                        place->problem, place->file);
  return {std::move(text), {}, {}};
}

base::status pytorch_body::validate(const task& of) const {
  if (of.baseline == baseline_kind::plain)
    return refuse_body(
        "its baseline is plain, and tasks of Python modules have no plain kernel: "
        "say reference");
  QUERN_CHECK(check_torch_needs(needs));
  if (place) QUERN_CHECK(check_benchmark_place(*place));
  return check_module_text(of.reference);
}

std::vector<task_finding> pytorch_body::check_texts(const task& of) const {
  std::vector<task_finding> findings;
  for (const torch_need& need : needs_of(of.reference))
    if (std::find(needs.begin(), needs.end(), need) == needs.end())
      findings.push_back({false, "needs",
                          fmt::format("the reference uses {}, which `needs` does not name: add it, "
                                      "so that a machine without it says so",
                                      to_text(need))});
  return findings;
}

body_words pytorch_body::words(const task& of) const {
  const python_outline outline = outline_of(of.reference);
  body_words words;
  words.signature = fmt::format("ModelNew({}).forward({})", joined_names(outline.init_arguments),
                                joined_names(outline.forward_arguments));
  std::vector<std::string> sizes;
  for (const auto& [name, value] : outline.sizes)
    sizes.push_back(fmt::format("{} = {}", name, value));
  words.sizes = joined_names(sizes);
  const std::string_view type = name_of(precision);
  // get_inputs() may leave out what has a default.
  for (const std::string& one : outline.forward_arguments)
    if (one.find('=') == std::string::npos)
      words.inputs += fmt::format("{}- {}", words.inputs.empty() ? "" : "\n", one);
  words.inputs += fmt::format(
      "{}- as get_inputs() returns them, in order; floating ones as {}, integers unchanged",
      words.inputs.empty() ? "" : "\n", type);
  words.outputs = fmt::format("- as Model.forward returns them: same shapes and types ({})", type);
  return words;
}

std::vector<torch_need> needs_of(std::string_view reference) {
  const python_outline outline = outline_of(reference);
  std::vector<torch_need> needs;
  const auto add = [&](torch_need::kind kind, const std::vector<std::string>& names) {
    for (const std::string& name : names)
      if (is_torch_need_name(name) && needs.size() < max_needs) needs.push_back({kind, name});
  };
  add(torch_need::kind::module, outline.modules);
  add(torch_need::kind::weights, outline.weights);
  return needs;
}

const pytorch_body& pytorch_of(const task& what) {
  const auto* module = dynamic_cast<const pytorch_body*>(what.body.get());
  if (module == nullptr)
    throw std::logic_error(
        fmt::format("task '{}' is asked for a Python module, its body is {}", what.name,
                    what.body == nullptr ? std::string_view("missing") : what.body->format().name));
  return *module;
}

}  // namespace quern::env
