// Facts of tasks from a file and from sheets, and their differences.
#include "tools/kernelbench_facts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quern::tools {
namespace {

constexpr std::size_t longest_value = 60;

std::string torch_name(const env::module_tensor& tensor) {
  if (tensor.is_bool) return "bool";
  switch (tensor.type) {
    case env::dtype::f32:
      return "float32";
    case env::dtype::f64:
      return "float64";
    case env::dtype::i32:
      return "int32";
    case env::dtype::i64:
      return "int64";
    case env::dtype::u8:
      return "uint8";
    case env::dtype::bf16:
      return "bfloat16";
    case env::dtype::f16:
      return "float16";
  }
  env::unknown_dtype(tensor.type);
}

std::int64_t bytes_of(const env::module_tensor& tensor) {
  auto bytes = static_cast<std::int64_t>(env::size_of(tensor.type));
  for (const std::int64_t n : tensor.shape)
    bytes *= n;
  return bytes;
}

std::string told(const env::module_tensor& tensor) {
  return fmt::format("{}[{}]", torch_name(tensor), fmt::join(tensor.shape, ", "));
}

/// An entry [type, shape, ...] or [type, value].
base::expected<std::string> read_entry(const base::json& from) {
  if (!from.is_array() || from.size() < 2 || !from[0].is_string())
    return base::fail(base::errc::invalid_argument, "facts: no tensor: {}", base::dump(from));
  if (from[1].is_string()) return from[1].get<std::string>();
  std::vector<std::int64_t> shape;
  for (const auto& n : from[1]) {
    if (!n.is_number_integer())
      return base::fail(base::errc::invalid_argument, "facts: no shape: {}", base::dump(from));
    shape.push_back(n.get<std::int64_t>());
  }
  return fmt::format("{}[{}]", from[0].get<std::string>(), fmt::join(shape, ", "));
}

}  // namespace

module_facts facts_of(const env::module_sheet& sheet) {
  module_facts facts;
  facts.init = sheet.init;
  for (const auto& one : sheet.arguments) {
    facts.inputs.push_back(one.value.empty() ? told(one.tensor) : one.value);
    if (one.value.empty()) facts.bytes += bytes_of(one.tensor);
  }
  for (const auto& one : sheet.outputs) {
    facts.outputs.push_back(told(one.tensor));
    facts.contiguous &= one.contiguous;
    facts.bytes += bytes_of(one.tensor);
  }
  for (const auto& one : sheet.weights) {
    facts.bytes += bytes_of(one.tensor);
    if (one.kind == "parameter") facts.weight_bytes += bytes_of(one.tensor);
    if (one.kind == "attribute") ++facts.plain;
  }
  facts.draws = sheet.draws;
  facts.constant = sheet.is_constant;
  return facts;
}

base::expected<module_facts> read_facts(const base::json& from) {
  module_facts facts;
  const auto init = from.find("init");
  const auto in = from.find("in");
  if (init == from.end() || !init->is_array() || in == from.end() || !in->is_array())
    return base::fail(base::errc::invalid_argument, "facts: an entry without 'init' or 'in'");
  facts.init = "[";
  for (const auto& one : *init) {
    const std::string value = one.is_string() ? one.get<std::string>() : base::dump(one);
    facts.init += (facts.init.size() > 1 ? ", " : "") + value;
    facts.init_cut = value.size() >= longest_value;
    if (facts.init_cut) break;
  }
  if (!facts.init_cut) facts.init += "]";
  for (const auto& one : *in) {
    QUERN_TRY(facts.inputs.emplace_back(), read_entry(one));
  }
  QUERN_TRY(facts.bytes, base::get<std::int64_t>(from, "in_bytes"));
  facts.outputs_known = !from.contains("err");
  if (!facts.outputs_known) return facts;
  QUERN_TRY(facts.weight_bytes, base::get<std::int64_t>(from, "param_bytes"));
  QUERN_TRY(const auto out_bytes, base::get<std::int64_t>(from, "out_bytes"));
  facts.bytes += out_bytes + facts.weight_bytes;
  for (const char* key : {"out", "plain", "rand_ops"})
    if (!from.contains(key) || !from[key].is_array())
      return base::fail(base::errc::invalid_argument, "facts: an entry without '{}'", key);
  for (const auto& one : from["out"]) {
    QUERN_TRY(facts.outputs.emplace_back(), read_entry(one));
    facts.contiguous &= one.size() > 2 && one[2].is_boolean() && one[2].get<bool>();
  }
  facts.plain = from["plain"].size();
  facts.draws = !from["rand_ops"].empty();
  return facts;
}

std::vector<std::string> differences(const module_facts& seen, const module_facts& wanted,
                                     bool ran) {
  std::vector<std::string> found;
  const auto compare = [&](const char* what, const auto& a, const auto& b) {
    if (a != b) found.push_back(fmt::format("{}: {}, the facts say {}", what, a, b));
  };
  compare("get_init_inputs", wanted.init_cut ? seen.init.substr(0, wanted.init.size()) : seen.init,
          wanted.init);
  compare("inputs", fmt::format("{}", fmt::join(seen.inputs, "; ")),
          fmt::format("{}", fmt::join(wanted.inputs, "; ")));
  if (!wanted.outputs_known) return found;
  compare("outputs", fmt::format("{}", fmt::join(seen.outputs, "; ")),
          fmt::format("{}", fmt::join(wanted.outputs, "; ")));
  compare("outputs contiguous", seen.contiguous, wanted.contiguous);
  compare("bytes of parameters", seen.weight_bytes, wanted.weight_bytes);
  compare("tensors outside of state_dict", seen.plain, wanted.plain);
  if (ran && !seen.constant) compare("random numbers in forward", seen.draws, wanted.draws);
  return found;
}

}  // namespace quern::tools
