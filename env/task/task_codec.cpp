// Task files: strict reading, canonical writing.
#include "env/task/task_codec.hpp"

#include <array>

#include <fmt/ranges.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "env/task/yaml_reader.hpp"

namespace quern::env {

namespace {

using std::string_view;

constexpr auto task_keys = std::to_array<string_view>(
    {"quern_task", "name", "lane", "family", "sizes", "hidden_sizes", "inputs", "outputs",
     "tolerance", "baseline", "cost", "degenerate", "reference", "plain"});
constexpr auto input_keys = std::to_array<string_view>({"name", "dtype", "shape", "dist", "below"});
constexpr auto output_keys = std::to_array<string_view>({"name", "dtype", "shape"});
constexpr auto tolerance_keys = std::to_array<string_view>({"atol", "rtol"});
constexpr auto cost_keys = std::to_array<string_view>({"bytes", "flops"});
constexpr auto baseline_names = std::to_array<string_view>({"reference", "plain"});
constexpr auto dtype_names =
    std::to_array<string_view>({"f32", "f64", "i32", "i64", "u8", "bf16", "f16"});
constexpr auto distribution_names =
    std::to_array<string_view>({"normal", "uniform", "large", "sparse", "sorted", "constant",
                                "denormal", "positive", "special"});

/// Error for a word that is not of a closed list.
tl::unexpected<base::error> not_of(const yaml_map& map, string_view key, string_view found,
                                   std::span<const string_view> known) {
  return base::fail(base::errc::invalid_argument, "{}: '{}' is '{}'{}; known are {}", map.where(),
                    key, found, base::did_you_mean(found, known), fmt::join(known, ", "));
}

base::expected<size_expr> read_expression(const yaml_map& map, string_view key) {
  QUERN_TRY(const std::string text, map.text(key));
  auto parsed = size_expr::parse(text);
  if (!parsed) return base::in_context(map.where(), std::move(parsed).error());
  return parsed;
}

base::expected<dtype> read_dtype(const yaml_map& map) {
  QUERN_TRY(const std::string name, map.text("dtype"));
  const auto type = parse_dtype(name);
  if (!type) return not_of(map, "dtype", name, dtype_names);
  return *type;
}

base::expected<std::vector<size_expr>> read_shape(const yaml_map& map) {
  QUERN_TRY(const std::vector<std::string> texts, map.texts("shape"));
  std::vector<size_expr> shape;
  for (const std::string& text : texts) {
    auto parsed = size_expr::parse(text);
    if (!parsed) return base::in_context(map.where(), std::move(parsed).error());
    shape.push_back(std::move(*parsed));
  }
  return shape;
}

base::expected<input_spec> read_input(const YAML::Node& node, std::size_t index) {
  QUERN_TRY(const yaml_map map,
            yaml_map::open(node, fmt::format("input {}", index + 1), input_keys));
  input_spec result;
  QUERN_TRY(result.name, map.text("name"));
  QUERN_TRY(result.type, read_dtype(map));
  QUERN_TRY(result.shape, read_shape(map));
  QUERN_TRY(const std::vector<std::string> dists, map.texts("dist"));
  for (const std::string& name : dists) {
    const auto kind = parse_distribution(name);
    if (!kind) return not_of(map, "dist", name, distribution_names);
    result.dists.push_back(*kind);
  }
  if (map.has("below")) {
    QUERN_TRY(result.below, read_expression(map, "below"));
  }
  return result;
}

base::expected<output_spec> read_output(const YAML::Node& node, std::size_t index) {
  QUERN_TRY(const yaml_map map,
            yaml_map::open(node, fmt::format("output {}", index + 1), output_keys));
  output_spec result;
  QUERN_TRY(result.name, map.text("name"));
  QUERN_TRY(result.type, read_dtype(map));
  QUERN_TRY(result.shape, read_shape(map));
  return result;
}

/// Values in the order of `names`; the map must have exactly these keys.
base::expected<std::vector<std::int64_t>> read_sizes(const yaml_map& map,
                                                     const std::vector<std::string>& names) {
  std::vector<std::int64_t> values;
  for (const std::string& name : names) {
    QUERN_TRY(const std::int64_t value, map.integer(name));
    values.push_back(value);
  }
  return values;
}

base::status read_all_sizes(const yaml_map& map, task& result) {
  QUERN_TRY(const YAML::Node node, map.node("sizes"));
  QUERN_TRY(const yaml_map sizes, yaml_map::open(node, "sizes", {}));
  result.size_names = sizes.keys();
  QUERN_TRY(result.sizes, read_sizes(sizes, result.size_names));
  if (!map.has("hidden_sizes")) return {};
  const std::vector<string_view> known(result.size_names.begin(), result.size_names.end());
  QUERN_TRY(const std::vector<YAML::Node> list, map.list("hidden_sizes"));
  for (std::size_t i = 0; i < list.size(); ++i) {
    QUERN_TRY(const yaml_map hidden,
              yaml_map::open(list[i], fmt::format("hidden_sizes {}", i + 1), known));
    QUERN_TRY(auto values, read_sizes(hidden, result.size_names));
    result.hidden_sizes.push_back(std::move(values));
  }
  return {};
}

base::status read_task(const YAML::Node& root, task& result) {
  // The version first: a later format may have keys that this one does not know.
  QUERN_TRY(const yaml_map any, yaml_map::open(root, "the task file", {}));
  QUERN_CHECK(check_version(any, "quern_task", task_version));
  QUERN_TRY(const yaml_map map, yaml_map::open(root, "the task file", task_keys));
  QUERN_TRY(result.name, map.text("name"));
  QUERN_TRY(const std::string lane_name, map.text("lane"));
  result.lane = find_lane(lane_name);
  if (result.lane == nullptr) return not_of(map, "lane", lane_name, lane_names());
  QUERN_TRY(result.family, map.text("family"));
  QUERN_CHECK(read_all_sizes(map, result));
  QUERN_TRY(const std::vector<YAML::Node> inputs, map.list("inputs"));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    QUERN_TRY(auto input, read_input(inputs[i], i));
    result.inputs.push_back(std::move(input));
  }
  QUERN_TRY(const std::vector<YAML::Node> outputs, map.list("outputs"));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    QUERN_TRY(auto output, read_output(outputs[i], i));
    result.outputs.push_back(std::move(output));
  }
  QUERN_TRY(const YAML::Node tolerance_node, map.node("tolerance"));
  QUERN_TRY(const yaml_map bounds, yaml_map::open(tolerance_node, "tolerance", tolerance_keys));
  QUERN_TRY(result.tolerance.atol, bounds.number("atol"));
  QUERN_TRY(result.tolerance.rtol, bounds.number("rtol"));
  QUERN_TRY(const std::string baseline, map.text("baseline"));
  if (baseline != "reference" && baseline != "plain")
    return not_of(map, "baseline", baseline, baseline_names);
  result.baseline = baseline == "plain" ? baseline_kind::plain : baseline_kind::reference;
  QUERN_TRY(const YAML::Node cost_node, map.node("cost"));
  QUERN_TRY(const yaml_map cost, yaml_map::open(cost_node, "cost", cost_keys));
  QUERN_TRY(result.cost.bytes, read_expression(cost, "bytes"));
  QUERN_TRY(result.cost.flops, read_expression(cost, "flops"));
  if (map.has("degenerate")) {
    QUERN_TRY(result.degenerate, map.boolean("degenerate"));
  }
  QUERN_TRY(const std::string reference, map.text("reference"));
  result.reference = canonical_block(reference);
  if (map.has("plain")) {
    QUERN_TRY(const std::string plain, map.text("plain"));
    result.plain = canonical_block(plain);
  }
  return validate(result);
}

std::string shape_text(const std::vector<size_expr>& shape) {
  std::string text;
  for (const size_expr& dimension : shape)
    text += (text.empty() ? "" : ", ") + dimension.text();
  return "[" + text + "]";
}

std::string sizes_text(const task& what, const std::vector<std::int64_t>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += fmt::format("{}{}: {}", i == 0 ? "" : ", ", what.size_names[i], values[i]);
  }
  return "{" + text + "}";
}

std::string block_text(string_view key, const std::string& text) {
  if (text.empty()) return {};
  // A first line that is indented itself would otherwise be taken for the block's indentation.
  std::string result = fmt::format("{}: |{}\n", key, text[0] == ' ' || text[0] == '\t' ? "2" : "");
  for (string_view line : base::split(string_view(text).substr(0, text.size() - 1), '\n')) {
    result += line.empty() ? "\n" : fmt::format("  {}\n", line);
  }
  return result;
}

std::string input_text(const input_spec& input) {
  std::vector<string_view> dists;
  for (const distribution kind : input.dists)
    dists.push_back(name_of(kind));
  return fmt::format("  - {{name: {}, dtype: {}, shape: {}, dist: [{}]{}}}\n", input.name,
                     name_of(input.type), shape_text(input.shape), fmt::join(dists, ", "),
                     input.below ? ", below: " + input.below->text() : "");
}

}  // namespace

base::expected<task> parse_task(std::string_view yaml) {
  QUERN_TRY(const YAML::Node root, load_yaml("the task file", yaml, max_task_file_bytes));
  task result;
  QUERN_CHECK(guard_yaml("the task file", [&] { return read_task(root, result); }));
  return result;
}

base::expected<task> load_task(const std::filesystem::path& file) {
  QUERN_TRY(const std::string text, base::read_file(file, max_task_file_bytes));
  auto parsed = parse_task(text);
  if (!parsed) return base::in_context(file.string(), std::move(parsed).error());
  return parsed;
}

std::string canonical_block(std::string_view text) {
  std::string result;
  for (const string_view line : base::split(text, '\n')) {
    string_view kept = line;
    while (!kept.empty() && (kept.back() == ' ' || kept.back() == '\t' || kept.back() == '\r'))
      kept.remove_suffix(1);
    if (kept.empty() && result.empty()) continue;
    result.append(kept);
    result += '\n';
  }
  while (result.size() >= 2 && result.ends_with("\n\n"))
    result.pop_back();
  return result;
}

std::string to_yaml(const task& what) {
  std::string text = fmt::format("quern_task: {}\nname: {}\nlane: {}\nfamily: {}\n", task_version,
                                 what.name, what.lane->name, what.family);
  text += "sizes: " + sizes_text(what, what.sizes) + "\n";
  if (!what.hidden_sizes.empty()) {
    std::vector<std::string> hidden;
    for (const auto& values : what.hidden_sizes)
      hidden.push_back(sizes_text(what, values));
    text += fmt::format("hidden_sizes: [{}]\n", fmt::join(hidden, ", "));
  }
  text += "inputs:\n";
  for (const input_spec& input : what.inputs)
    text += input_text(input);
  text += "outputs:\n";
  for (const output_spec& output : what.outputs) {
    text += fmt::format("  - {{name: {}, dtype: {}, shape: {}}}\n", output.name,
                        name_of(output.type), shape_text(output.shape));
  }
  text +=
      fmt::format("tolerance: {{atol: {}, rtol: {}}}\n", what.tolerance.atol, what.tolerance.rtol);
  text +=
      fmt::format("baseline: {}\n", what.baseline == baseline_kind::plain ? "plain" : "reference");
  text += fmt::format("cost: {{bytes: {}, flops: {}}}\n", what.cost.bytes.text(),
                      what.cost.flops.text());
  if (what.degenerate) text += "degenerate: true\n";
  return text + block_text("reference", what.reference) + block_text("plain", what.plain);
}

}  // namespace quern::env
