// What the process of a reference says of its module.
#include "env/lanes/pytorch/process/module_sheet.hpp"

#include "env/runner/protocol.hpp"

namespace quern::env {
namespace {

constexpr std::size_t max_init_bytes = 16 * 1024;
constexpr std::size_t max_name_bytes = 512;

base::expected<module_tensor> parse_tensor(const base::json& from) {
  module_tensor tensor;
  QUERN_TRY(const auto name, base::get<std::string>(from, "type"));
  const auto type = parse_dtype(name);
  if (!type) return base::fail(base::errc::invalid_argument, "a tensor of type '{}'", name);
  tensor.type = *type;
  QUERN_TRY(tensor.is_bool, base::get<bool>(from, "bool"));
  if (tensor.is_bool && tensor.type != dtype::u8)
    return base::fail(base::errc::invalid_argument, "a bool of type '{}'", name);
  const auto shape = from.find("shape");
  if (shape == from.end() || !shape->is_array() || shape->size() > max_rank)
    return base::fail(base::errc::invalid_argument,
                      "a tensor without a shape of at most {} dimensions", max_rank);
  for (const auto& n : *shape) {
    if (!n.is_number_integer() || n.get<std::int64_t>() < 0)
      return base::fail(base::errc::invalid_argument, "a shape with {}", base::dump(n));
    tensor.shape.push_back(n.get<std::int64_t>());
  }
  return tensor;
}

base::expected<tensor_layout> layout_of(std::string name, const module_tensor& tensor,
                                        bool may_be_empty) {
  tensor_layout layout;
  layout.name = std::move(name);
  layout.type = tensor.type;
  layout.shape = tensor.shape;
  const auto size = static_cast<std::int64_t>(size_of(tensor.type));
  for (const std::int64_t n : tensor.shape)
    if (__builtin_mul_overflow(layout.elements, n, &layout.elements) ||
        layout.elements > max_tensor_bytes / size)
      return base::fail(base::errc::invalid_argument, "tensor {} is larger than {} bytes",
                        layout.name, max_tensor_bytes);
  if (layout.elements == 0 && !may_be_empty)
    return base::fail(base::errc::invalid_argument, "tensor {} has no elements", layout.name);
  layout.bytes = layout.elements * size;
  if (tensor.is_bool) layout.below = 2;
  return layout;
}

/// The array `key`, of at most `most` objects.
base::expected<const base::json*> objects(const base::json& from, const char* key,
                                          std::size_t most) {
  const auto found = from.find(key);
  if (found == from.end() || !found->is_array() || found->size() > most)
    return base::fail(base::errc::invalid_argument, "'{}' is no list of at most {}", key, most);
  for (const auto& one : *found)
    if (!one.is_object())
      return base::fail(base::errc::invalid_argument, "'{}' has an entry that is no object", key);
  return &*found;
}

base::json tensor_json(const module_tensor& tensor) {
  return {{"type", name_of(tensor.type)}, {"bool", tensor.is_bool}, {"shape", tensor.shape}};
}

}  // namespace

base::expected<module_sheet> parse_module_sheet(std::string_view text) {
  if (text.size() > max_sheet_bytes)
    return base::fail(base::errc::invalid_argument, "a sheet of {} bytes, at most {}", text.size(),
                      max_sheet_bytes);
  QUERN_TRY(const auto json, base::parse_json(text, 16));
  module_sheet sheet;
  QUERN_TRY(sheet.init, base::get<std::string>(json, "init"));
  if (sheet.init.size() > max_init_bytes)
    return base::fail(base::errc::invalid_argument, "get_init_inputs has {} bytes, at most {}",
                      sheet.init.size(), max_init_bytes);
  QUERN_TRY(const auto* inputs, objects(json, "inputs", runner::max_tensors));
  for (const auto& one : *inputs) {
    module_argument argument;
    if (one.contains("value")) {
      QUERN_TRY(argument.value, base::get<std::string>(one, "value"));
      if (argument.value.empty() || argument.value.size() > max_init_bytes)
        return base::fail(base::errc::invalid_argument, "a value of {} bytes among the inputs",
                          argument.value.size());
    } else {
      QUERN_TRY(argument.tensor, parse_tensor(one));
    }
    sheet.arguments.push_back(std::move(argument));
  }
  QUERN_TRY(const auto* weights, objects(json, "weights", max_module_weights));
  for (const auto& one : *weights) {
    module_weight weight;
    QUERN_TRY(weight.kind, base::get<std::string>(one, "kind"));
    QUERN_TRY(weight.name, base::get<std::string>(one, "name"));
    if (weight.name.size() > max_name_bytes || weight.kind.size() > max_name_bytes)
      return base::fail(base::errc::invalid_argument, "a weight's name of {} bytes, at most {}",
                        weight.name.size(), max_name_bytes);
    QUERN_TRY(weight.tensor, parse_tensor(one));
    sheet.weights.push_back(std::move(weight));
  }
  QUERN_TRY(const auto* outputs,
            objects(json, "outputs", runner::max_tensors - sheet.arguments.size()));
  if (outputs->empty())
    return base::fail(base::errc::invalid_argument, "the model returns nothing");
  for (const auto& one : *outputs) {
    module_output output;
    QUERN_TRY(output.tensor, parse_tensor(one));
    QUERN_TRY(output.contiguous, base::get<bool>(one, "contiguous"));
    sheet.outputs.push_back(std::move(output));
  }
  QUERN_TRY(sheet.returns_tuple, base::get<bool>(json, "tuple"));
  QUERN_TRY(sheet.keeps_state, base::get<bool>(json, "keeps_state"));
  QUERN_TRY(sheet.draws, base::get<bool>(json, "draws"));
  QUERN_TRY(sheet.repeats, base::get<bool>(json, "repeats"));
  QUERN_TRY(sheet.is_constant, base::get<bool>(json, "constant"));
  QUERN_TRY(sheet.drawn_on_core, base::get<bool>(json, "drawn_on_core"));
  return sheet;
}

base::expected<task_instance> instance_of(const module_sheet& sheet) {
  task_instance at;
  for (std::size_t i = 0; i < sheet.arguments.size(); ++i) {
    if (!sheet.arguments[i].value.empty()) continue;
    QUERN_TRY(auto layout, layout_of(fmt::format("input {}", i), sheet.arguments[i].tensor, false));
    at.inputs.push_back(std::move(layout));
  }
  for (std::size_t i = 0; i < sheet.outputs.size(); ++i) {
    QUERN_TRY(auto layout,
              layout_of(sheet.outputs.size() == 1 ? "result" : fmt::format("result {}", i),
                        sheet.outputs[i].tensor, false));
    at.outputs.push_back(std::move(layout));
  }
  // What any kernel has to move: its results. Inputs may be ignored.
  for (const auto& output : at.outputs)
    at.cost_bytes += output.bytes;
  return at;
}

base::expected<std::vector<tensor_layout>> weight_layouts(const module_sheet& sheet) {
  std::vector<tensor_layout> layouts;
  for (const auto& one : sheet.weights) {
    QUERN_TRY(auto layout, layout_of(one.name, one.tensor, true));
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

base::json arguments_json(const module_sheet& sheet) {
  base::json list = base::json::array();
  for (const auto& one : sheet.arguments)
    list.push_back(one.value.empty() ? tensor_json(one.tensor) : base::json{{"value", one.value}});
  return list;
}

base::json weights_json(const module_sheet& sheet) {
  base::json list = base::json::array();
  for (const auto& one : sheet.weights) {
    base::json entry = tensor_json(one.tensor);
    entry["kind"] = one.kind;
    entry["name"] = one.name;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace quern::env
