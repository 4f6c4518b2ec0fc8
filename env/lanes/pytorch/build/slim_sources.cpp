// The files that one extension is compiled from: as torch writes them, and with slim headers.
#include "env/lanes/pytorch/build/slim_sources.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/core.h>

#include "base/text.hpp"
#include "env/screen/lexer.hpp"

namespace quern::env {
namespace {

// torch's own words: the two files that load_inline writes.
constexpr const char* inline_cpp_name = "main.cpp";
constexpr const char* inline_cuda_name = "cuda.cu";

/// Replaced in every file: what torch/extension.h has is in the slim headers, or is a compile
/// error that leads to the full route.
constexpr std::array<std::string_view, 6> whole_torch{
    "torch/extension.h", "torch/all.h",    "torch/torch.h",
    "torch/types.h",     "torch/python.h", "torch/csrc/utils/pybind.h"};
constexpr std::array<std::string_view, 2> whole_pybind{"pybind11/pybind11.h", "pybind11/stl.h"};
/// Replaced in CUDA files alone. C++ files see ATen's own classes, so these stay.
constexpr std::array<std::string_view, 17> parts_for_cuda{"ATen/ATen.h",
                                                          "ATen/Tensor.h",
                                                          "ATen/core/Tensor.h",
                                                          "ATen/Functions.h",
                                                          "ATen/Dispatch.h",
                                                          "ATen/cuda/CUDAContext.h",
                                                          "ATen/cuda/CUDAContextLight.h",
                                                          "ATen/cuda/Exceptions.h",
                                                          "c10/cuda/CUDAStream.h",
                                                          "c10/cuda/CUDAGuard.h",
                                                          "c10/cuda/CUDAException.h",
                                                          "c10/cuda/CUDAFunctions.h",
                                                          "c10/util/Exception.h",
                                                          "c10/util/Optional.h",
                                                          "c10/util/ArrayRef.h",
                                                          "c10/core/ScalarType.h",
                                                          "c10/core/Device.h"};
constexpr std::array<std::string_view, 5> torch_folders{"torch/", "ATen/", "c10/", "pybind11/",
                                                        "caffe2/"};
constexpr std::size_t most_operators = 64;

template <std::size_t N>
bool is_listed_header(const std::array<std::string_view, N>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool is_name_character(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool names_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !is_name_character(text[at - 1]);
    const std::size_t end = at + word.size();
    if (begins && (end == text.size() || !is_name_character(text[end]))) return true;
  }
  return false;
}

/// The header that a line includes; empty: it is no such line.
std::string_view included_by(std::string_view line) {
  std::string_view rest = base::trim(line);
  if (!rest.starts_with('#')) return {};
  rest = base::trim(rest.substr(1));
  if (!rest.starts_with("include")) return {};
  rest = base::trim(rest.substr(7));
  if (rest.empty() || (rest.front() != '<' && rest.front() != '"')) return {};
  const std::size_t end = rest.find(rest.front() == '<' ? '>' : '"', 1);
  return end == rest.npos ? std::string_view{} : rest.substr(1, end - 1);
}

/// Names behind "torch::" and "at::".
std::set<std::string, std::less<>> named_of_torch(std::string_view text) {
  std::set<std::string, std::less<>> names;
  for (const std::string_view space : {std::string_view("torch::"), std::string_view("at::")})
    for (std::size_t at = text.find(space); at != text.npos; at = text.find(space, at + 1)) {
      if (at > 0 && is_name_character(text[at - 1])) continue;
      std::size_t end = at + space.size();
      while (end < text.size() && is_name_character(text[end]))
        ++end;
      names.emplace(text.substr(at + space.size(), end - at - space.size()));
    }
  return names;
}

// A text that becomes a literal of C++ as torch writes it: between quotes, as it is.
bool is_literal(std::string_view text) {
  return text.find_first_of("\"\\\n\r") == text.npos;
}

std::string joined_sources(const std::vector<std::string>& texts) {
  std::string all;
  for (const auto& text : texts)
    all += (all.empty() ? "" : "\n") + text;
  return all;
}

std::string full_binding(const extension_request& request) {
  std::string text = "\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {";
  for (const auto& function : *request.functions)
    text += request.error_handling
                ? fmt::format("\nm.def(\"{}\", torch::wrap_pybind_function({}), \"{}\");",
                              function.name, function.name, function.text)
                : fmt::format("\nm.def(\"{}\", {}, \"{}\");", function.name, function.name,
                              function.text);
  return text + "\n}";
}

std::string slim_binding(const extension_request& request) {
  std::string text = "\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, quern_module) {";
  for (const auto& function : *request.functions)
    text += fmt::format("\nquern_module.def(\"{}\", {}, \"{}\");", function.name, function.name,
                        function.text);
  return text + "\n}";
}

bool is_cuda_name(std::string_view name) {
  return name.ends_with(".cu") || name.ends_with(".cuh");
}

using header_names = std::vector<std::string_view>;

/// The lines of a file without what the slim headers stand for, which `replaced` gets. None: it
/// includes more of torch.
std::optional<std::string> without_torch(std::string_view text, bool cuda, header_names& replaced) {
  std::string lines;
  lines.reserve(text.size());
  for (const std::string_view line : base::split(text, '\n')) {
    if (!lines.empty() || line.data() != text.data()) lines += '\n';
    const std::string_view header = included_by(line);
    if (is_listed_header(whole_torch, header) || is_listed_header(whole_pybind, header) ||
        (cuda && is_listed_header(parts_for_cuda, header))) {
      replaced.push_back(header);
      continue;
    }
    const bool of_torch = std::any_of(torch_folders.begin(), torch_folders.end(),
                                      [&](std::string_view at) { return header.starts_with(at); });
    if (of_torch && (cuda || header.starts_with("torch/") || header.starts_with("pybind11/")))
      return std::nullopt;
    lines += line;
  }
  return lines;
}

// What torch's own headers do not bring is not there by the slim route either: a text that lacks an
// include must not become a kernel by one route and an error by the other.
std::string headers_for_cuda(std::string_view text, const header_names& replaced) {
  const auto includes = [&](std::string_view beginning) {
    return std::any_of(replaced.begin(), replaced.end(),
                       [&](std::string_view name) { return name.starts_with(beginning); });
  };
  std::string lines;
  const bool halves = text.find("Half") != text.npos || text.find("BFloat16") != text.npos ||
                      text.find("AT_DISPATCH") != text.npos || text.find("HALF") != text.npos;
  if (halves) lines += "#define QUERN_SLIM_HALVES\n";
  if (includes("c10/cuda/") || includes("ATen/cuda/")) lines += "#define QUERN_SLIM_CUDA_CHECKS\n";
  if (includes("ATen/cuda/")) lines += "#define QUERN_SLIM_AT_CUDA\n";
  if (includes("c10/cuda/CUDAStream") || includes("c10/cuda/CUDAGuard") ||
      includes("ATen/cuda/CUDAContext"))
    lines += "#define QUERN_SLIM_STREAMS\n";
  if (includes("c10/cuda/CUDAGuard")) lines += "#define QUERN_SLIM_GUARDS\n";
  lines += "#include <quern_device.h>\n#include <cuda.h>\n";
  if (includes("ATen/cuda/") && text.find("cublas") != text.npos)
    lines += "#include <cublas_v2.h>\n";
  return lines;
}

std::string headers_for_cpp(std::string_view text, const operator_headers& has) {
  std::string lines = "#include <quern_host.h>\n";
  std::size_t count = 0;
  for (const auto& name : named_of_torch(text))
    if (count < most_operators && has(name)) {
      lines += fmt::format("#include <ATen/ops/{}.h>\n", name);
      ++count;
    }
  if (text.find("AT_DISPATCH") != text.npos) lines += "#include <ATen/Dispatch.h>\n";
  if (text.find("indexing::") != text.npos) lines += "#include <ATen/TensorIndexing.h>\n";
  return lines;
}

struct file_form {
  bool cuda = false;
  int first_line = 1;     ///< the number that its first line has in torch's own file
  bool implicit = false;  ///< torch puts its headers in front
  bool binds = false;     ///< the binding is in it
};

std::optional<build_source> slim_file(const std::string& name, std::string_view text,
                                      const file_form& form, const operator_headers& has) {
  // These have no slim form. What has none otherwise does not compile, and is noticed then.
  for (const std::string_view word : {"TORCH_LIBRARY", "torch::autograd", "torch::jit"})
    if (text.find(word) != text.npos) return std::nullopt;
  header_names replaced;
  const auto lines = without_torch(text, form.cuda, replaced);
  if (!lines) return std::nullopt;
  std::string head;
  if (form.implicit || !replaced.empty())
    head = form.cuda ? headers_for_cuda(text, replaced) : headers_for_cpp(text, has);
  if (form.binds || (!head.empty() && names_word(text, "PYBIND11_MODULE")))
    head += "#include <quern_binding.h>\n";
  return build_source{
      name, fmt::format("{}#line {} \"{}\"\n{}", head, form.first_line, name, *lines), form.cuda};
}

}  // namespace

std::vector<build_source> full_sources(const extension_request& request) {
  std::vector<build_source> sources;
  if (!request.files.empty()) {
    for (const auto& file : request.files)
      sources.push_back({file.name, file.text + "\n", is_cuda_name(file.name)});
    return sources;
  }
  std::string cpp = joined_sources(request.cpp_sources);
  if (request.implicit_headers) cpp = "#include <torch/extension.h>\n" + cpp;
  if (request.functions) cpp += full_binding(request);
  sources.push_back({inline_cpp_name, cpp + "\n", false});
  if (request.cuda_sources.empty()) return sources;
  std::string cuda = joined_sources(request.cuda_sources) + "\n";
  if (request.implicit_headers)
    cuda = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n" + cuda;
  sources.push_back({inline_cuda_name, std::move(cuda), true});
  return sources;
}

std::optional<std::string> undeclared_function(const extension_request& request) {
  if (!request.functions || !request.headers.empty()) return std::nullopt;
  std::set<std::string> words;
  std::string before;
  for (token& one : lex_cpp(joined_sources(request.cpp_sources))) {
    const bool imports = before == "using" && one.text == "namespace";
    if (imports || one.text == "##") return std::nullopt;
    before = one.text;
    if (one.kind == token_kind::identifier) words.insert(std::move(one.text));
  }
  for (const named_text& function : *request.functions)
    for (const token& one : lex_cpp(function.name))
      if (one.kind == token_kind::identifier && !words.contains(one.text)) return function.name;
  return std::nullopt;
}

std::optional<std::vector<build_source>> slim_sources(const extension_request& request,
                                                      const operator_headers& has) {
  std::vector<build_source> sources;
  const auto add = [&](std::optional<build_source> made) {
    if (made) sources.push_back(std::move(*made));
    return made.has_value();
  };
  // A header of the candidate's own is compiled by both compilers, with either set of headers.
  for (const auto& header : request.headers)
    if (header.text.find("torch") != header.text.npos ||
        header.text.find("ATen") != header.text.npos)
      return std::nullopt;
  for (const auto& file : request.files)
    if (!add(slim_file(file.name, file.text + "\n", {.cuda = is_cuda_name(file.name)}, has)))
      return std::nullopt;
  if (!request.files.empty()) return sources;
  const bool binds = request.functions.has_value();
  for (const auto& function : request.functions.value_or(std::vector<named_text>{}))
    if (!is_literal(function.name) || !is_literal(function.text)) return std::nullopt;
  // A binding needs the classes that it binds, whatever the candidate includes.
  const bool implicit = request.implicit_headers;
  const std::string cpp =
      joined_sources(request.cpp_sources) + (binds ? slim_binding(request) : std::string()) + "\n";
  if (!add(slim_file(
          inline_cpp_name, cpp,
          {.first_line = implicit ? 2 : 1, .implicit = implicit || binds, .binds = binds}, has)))
    return std::nullopt;
  if (request.cuda_sources.empty()) return sources;
  if (!add(slim_file(inline_cuda_name, joined_sources(request.cuda_sources) + "\n",
                     {.cuda = true, .first_line = implicit ? 4 : 1, .implicit = implicit}, has)))
    return std::nullopt;
  return sources;
}

}  // namespace quern::env
