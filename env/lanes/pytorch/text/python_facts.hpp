// What a Python module shows without being run: evidence for verdicts, and how a candidate's
// backend is recognised.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "env/lanes/pytorch/text/python_tokens.hpp"

namespace quern::env {

/// Read from tokens, so that words in comments and strings do not count. It is no proof: what a
/// module reaches by getattr, exec, __import__ or from within f-strings is not seen, and a name
/// that it binds anew still counts as what it imported.
struct python_facts {
  /// Defined at module scope, also in `if`, `try` and other blocks there, in the order of the text.
  std::vector<std::string> classes;
  std::vector<std::string> functions;
  /// All names that are bound at module scope by a class, a function, an import or a plain
  /// assignment (`a = b = 1`, `a: int = 1`; not `a, b = 1, 2`), sorted, each once.
  std::vector<std::string> names;
  /// First parts of imported modules (torch of `import torch.nn`), at any scope, sorted, each once.
  /// Relative imports have none.
  std::vector<std::string> imports;

  bool uses_load_inline = false;    ///< torch.utils.cpp_extension.load_inline
  bool uses_load = false;           ///< torch.utils.cpp_extension.load
  bool uses_triton_jit = false;     ///< triton.jit
  bool uses_torch_compile = false;  ///< torch.compile
  bool uses_cuda_graph = false;  ///< torch.cuda's CUDAGraph, graph, graphs, make_graphed_callables
  bool uses_cute = false;        ///< cutlass.cute, also if it is only imported
  bool uses_tilelang = false;    ///< tilelang, also if it is only imported

  bool operator==(const python_facts&) const = default;

  /// Whether `name` is bound at module scope.
  [[nodiscard]] bool binds(std::string_view name) const;
};

/// Names go through imports: after `from torch.utils.cpp_extension import load_inline as build`,
/// `build` is load_inline. Where `text` has a fault, the facts are those of what comes before it.
/// Linear in the tokens but for sorting. Any thread.
python_facts facts_of_python(const python_tokens& text);

}  // namespace quern::env
