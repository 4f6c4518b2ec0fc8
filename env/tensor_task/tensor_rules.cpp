// The rules that a body of tensors has to keep, whatever made it.
#include <algorithm>
#include <array>
#include <set>

#include <fmt/ranges.h>

#include "env/task/task.hpp"
#include "env/tensor_task/task_instance.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {

namespace {

constexpr std::size_t max_sizes = 8;
constexpr std::size_t max_hidden_sizes = 8;
constexpr std::size_t max_inputs = 16;
constexpr std::size_t max_outputs = 8;

// Words that C++, C macros, TorchScript or our own entry points already use.
constexpr auto reserved = std::to_array<std::string_view>({"alignas",
                                                           "alignof",
                                                           "and",
                                                           "and_eq",
                                                           "as",
                                                           "asm",
                                                           "assert",
                                                           "async",
                                                           "auto",
                                                           "await",
                                                           "bitand",
                                                           "bitor",
                                                           "bool",
                                                           "break",
                                                           "case",
                                                           "catch",
                                                           "char",
                                                           "class",
                                                           "compl",
                                                           "concept",
                                                           "const",
                                                           "consteval",
                                                           "constexpr",
                                                           "constinit",
                                                           "continue",
                                                           "co_await",
                                                           "co_return",
                                                           "co_yield",
                                                           "cudaStream_t",
                                                           "decltype",
                                                           "def",
                                                           "default",
                                                           "del",
                                                           "delete",
                                                           "do",
                                                           "double",
                                                           "dynamic_cast",
                                                           "elif",
                                                           "else",
                                                           "enum",
                                                           "except",
                                                           "explicit",
                                                           "export",
                                                           "extern",
                                                           "false",
                                                           "finally",
                                                           "float",
                                                           "for",
                                                           "forward",
                                                           "friend",
                                                           "from",
                                                           "global",
                                                           "goto",
                                                           "if",
                                                           "import",
                                                           "in",
                                                           "inline",
                                                           "int",
                                                           "int32_t",
                                                           "int64_t",
                                                           "is",
                                                           "kernel",
                                                           "lambda",
                                                           "linux",
                                                           "long",
                                                           "mutable",
                                                           "namespace",
                                                           "new",
                                                           "noexcept",
                                                           "none",
                                                           "nonlocal",
                                                           "not",
                                                           "not_eq",
                                                           "null",
                                                           "nullptr",
                                                           "operator",
                                                           "or",
                                                           "or_eq",
                                                           "pass",
                                                           "private",
                                                           "protected",
                                                           "public",
                                                           "raise",
                                                           "register",
                                                           "reinterpret_cast",
                                                           "requires",
                                                           "restrict",
                                                           "return",
                                                           "self",
                                                           "short",
                                                           "signed",
                                                           "sizeof",
                                                           "static",
                                                           "static_assert",
                                                           "static_cast",
                                                           "stream",
                                                           "struct",
                                                           "switch",
                                                           "template",
                                                           "this",
                                                           "thread_local",
                                                           "throw",
                                                           "torch",
                                                           "true",
                                                           "try",
                                                           "typedef",
                                                           "typeid",
                                                           "typename",
                                                           "uint8_t",
                                                           "union",
                                                           "unix",
                                                           "unsigned",
                                                           "using",
                                                           "virtual",
                                                           "void",
                                                           "volatile",
                                                           "wchar_t",
                                                           "while",
                                                           "with",
                                                           "workspace",
                                                           "workspace_bytes",
                                                           "xor",
                                                           "xor_eq",
                                                           "yield"});

template <class... Args>
tl::unexpected<base::error> refuse(fmt::format_string<Args...> format, Args&&... args) {
  return base::fail(base::errc::invalid_argument, format, std::forward<Args>(args)...);
}

base::status check_argument_name(const std::string& name, std::set<std::string>& taken) {
  if (!is_identifier(name, 32)) {
    return refuse(
        "'{}' is no argument name: begin with a small letter, go on with letters, digits and _, at "
        "most 32",
        name);
  }
  if (std::find(reserved.begin(), reserved.end(), name) != reserved.end()) {
    return refuse(
        "'{}' cannot name an argument, it has a meaning in C++ or TorchScript: choose another",
        name);
  }
  if (!taken.insert(name).second)
    return refuse("the name '{}' is used twice: every argument needs its own", name);
  return {};
}

base::status check_count(std::string_view of, std::size_t count, std::size_t least,
                         std::size_t most) {
  if (count < least || count > most)
    return refuse("{} {} given, between {} and {} are allowed", count, of, least, most);
  return {};
}

base::status check_tensor(const task& what, const std::string& name, dtype type, std::size_t rank) {
  if (!allowed_in(type, *what.lane)) {
    std::vector<std::string_view> known;
    for (const dtype one : what.lane->element_types)
      known.push_back(name_of(one));
    return refuse("tensor '{}': dtype {} is not known in lane {}; use {}", name, name_of(type),
                  what.lane->name, fmt::join(known, ", "));
  }
  if (rank > max_rank)
    return refuse("tensor '{}' has {} dimensions, at most {} are allowed", name, rank, max_rank);
  return {};
}

base::status check_input(const task& what, const input_spec& input) {
  QUERN_CHECK(check_tensor(what, input.name, input.type, input.shape.size()));
  if (input.dists.empty())
    return refuse("input '{}' has no distribution: give dist a list, the first is timed",
                  input.name);
  const bool floating = is_floating(input.type);
  if (floating && input.below)
    return refuse("input '{}' is {} and has 'below', which is for integers", input.name,
                  name_of(input.type));
  if (!floating && !input.below) {
    return refuse("input '{}' is {} and needs 'below', the bound of its values", input.name,
                  name_of(input.type));
  }
  std::set<distribution> seen;
  for (const distribution kind : input.dists) {
    if (!floating && !has_integer_form(kind)) {
      return refuse(
          "input '{}' is {} and cannot be '{}': integers are uniform, sparse, sorted or constant",
          input.name, name_of(input.type), name_of(kind));
    }
    if (!seen.insert(kind).second)
      return refuse("input '{}' lists '{}' twice", input.name, name_of(kind));
  }
  return {};
}

base::status check_sizes(const task& what, std::span<const std::int64_t> sizes) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1)
      return refuse("size '{}' is {}, it must be at least 1", tensors_of(what).size_names[i],
                    sizes[i]);
  }
  QUERN_CHECK(instantiate(what, sizes));
  return {};
}

base::status check_arguments(const task& of, const tensor_body& body) {
  QUERN_CHECK(check_count("sizes", body.sizes.size(), 1, max_sizes));
  QUERN_CHECK(check_count("hidden_sizes", body.hidden_sizes.size(), 0, max_hidden_sizes));
  QUERN_CHECK(check_count("inputs", body.inputs.size(), 1, max_inputs));
  QUERN_CHECK(check_count("outputs", body.outputs.size(), 1, max_outputs));
  std::set<std::string> taken;
  for (const std::string& name : body.size_names)
    QUERN_CHECK(check_argument_name(name, taken));
  for (const input_spec& input : body.inputs) {
    QUERN_CHECK(check_argument_name(input.name, taken));
    QUERN_CHECK(check_input(of, input));
  }
  for (const output_spec& output : body.outputs) {
    QUERN_CHECK(check_argument_name(output.name, taken));
    QUERN_CHECK(check_tensor(of, output.name, output.type, output.shape.size()));
  }
  return {};
}

}  // namespace

base::status tensor_body::validate(const task& of) const {
  QUERN_CHECK(check_arguments(of, *this));
  QUERN_CHECK(check_block("plain", plain));
  if (of.reference.empty())
    return refuse("the reference text is empty: give TorchScript that defines forward");
  if (of.baseline == baseline_kind::plain && plain.empty()) {
    return refuse(
        "baseline is plain, but there is no 'plain' text: add it or measure against the reference");
  }
  QUERN_CHECK(check_sizes(of, sizes));
  for (const auto& row : hidden_sizes)
    QUERN_CHECK(check_sizes(of, row));
  return {};
}

}  // namespace quern::env
