// Bodies of tensors in task files: strict reading, canonical writing.
#include <array>

#include <fmt/ranges.h>

#include "env/task/task_codec.hpp"
#include "env/task/yaml_reader.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {

namespace {

using std::string_view;

constexpr auto argument_keys =
    std::to_array<string_view>({"sizes", "hidden_sizes", "inputs", "outputs"});
constexpr auto limit_keys = std::to_array<string_view>({"cost"});
constexpr auto plain_keys = std::to_array<string_view>({"plain"});
constexpr auto input_keys = std::to_array<string_view>({"name", "dtype", "shape", "dist", "below"});
constexpr auto output_keys = std::to_array<string_view>({"name", "dtype", "shape"});
constexpr auto cost_keys = std::to_array<string_view>({"bytes", "flops"});
constexpr auto dtype_names =
    std::to_array<string_view>({"f32", "f64", "i32", "i64", "u8", "bf16", "f16"});
constexpr auto distribution_names =
    std::to_array<string_view>({"normal", "uniform", "large", "sparse", "sorted", "constant",
                                "denormal", "positive", "special"});

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

base::status read_all_sizes(const yaml_map& map, tensor_body& result) {
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

base::status read_tensors(const yaml_map& map, tensor_body& result) {
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
  QUERN_TRY(const YAML::Node cost_node, map.node("cost"));
  QUERN_TRY(const yaml_map cost, yaml_map::open(cost_node, "cost", cost_keys));
  QUERN_TRY(result.cost.bytes, read_expression(cost, "bytes"));
  QUERN_TRY(result.cost.flops, read_expression(cost, "flops"));
  if (map.has("plain")) {
    QUERN_TRY(const std::string plain, map.text("plain"));
    result.plain = canonical_block(plain);
  }
  return {};
}

base::expected<std::shared_ptr<const task_body>> read_tensor_body(const yaml_map& file) {
  auto body = std::make_shared<tensor_body>();
  QUERN_CHECK(read_tensors(file, *body));
  return body;
}

std::string shape_in_file(const std::vector<size_expr>& shape) {
  std::string text;
  for (const size_expr& dimension : shape)
    text += (text.empty() ? "" : ", ") + dimension.text();
  return "[" + text + "]";
}

std::string sizes_in_file(const tensor_body& what, const std::vector<std::int64_t>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += fmt::format("{}{}: {}", i == 0 ? "" : ", ", what.size_names[i], values[i]);
  }
  return "{" + text + "}";
}

std::string input_in_file(const input_spec& input) {
  std::vector<string_view> dists;
  for (const distribution kind : input.dists)
    dists.push_back(name_of(kind));
  return fmt::format("  - {{name: {}, dtype: {}, shape: {}, dist: [{}]{}}}\n", input.name,
                     name_of(input.type), shape_in_file(input.shape), fmt::join(dists, ", "),
                     input.below ? ", below: " + input.below->text() : "");
}

}  // namespace

constexpr body_format tensor_format{
    .name = "tensors",
    .keys = {.after_family = argument_keys,
             .after_baseline = limit_keys,
             .after_reference = plain_keys},
    .read = read_tensor_body,
};

body_text tensor_body::text() const {
  body_text result;
  std::string& text = result.after_family;
  text += "sizes: " + sizes_in_file(*this, sizes) + "\n";
  if (!hidden_sizes.empty()) {
    std::vector<std::string> hidden;
    for (const auto& values : hidden_sizes)
      hidden.push_back(sizes_in_file(*this, values));
    text += fmt::format("hidden_sizes: [{}]\n", fmt::join(hidden, ", "));
  }
  text += "inputs:\n";
  for (const input_spec& input : inputs)
    text += input_in_file(input);
  text += "outputs:\n";
  for (const output_spec& output : outputs) {
    text += fmt::format("  - {{name: {}, dtype: {}, shape: {}}}\n", output.name,
                        name_of(output.type), shape_in_file(output.shape));
  }
  result.after_baseline =
      fmt::format("cost: {{bytes: {}, flops: {}}}\n", cost.bytes.text(), cost.flops.text());
  result.after_reference = block_text("plain", plain);
  return result;
}

}  // namespace quern::env
