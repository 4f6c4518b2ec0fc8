// What a Python module is seen to define and to need without running it: for the checks of a task's
// text and for prompts. Whoever wants to deceive it can; the processes that run the text decide.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::env {

struct python_outline {
  /// Names that statements at the left margin define, in their order: classes, functions, values
  /// that are assigned, modules that are imported.
  std::vector<std::string> classes, functions, values, imported;
  /// First names of modules imported anywhere, sorted, without torch and Python's own.
  std::vector<std::string> modules;
  /// What `from_pretrained` is called with anywhere, where that is a text or a value at the left
  /// margin that is a text; sorted.
  std::vector<std::string> weights;
  /// Arguments of `__init__` and `forward` of class Model, without `self`: "x", "mask=None",
  /// "*rest".
  std::vector<std::string> init_arguments, forward_arguments;
  /// Values at the left margin that are short and call nothing: name and text.
  std::vector<std::pair<std::string, std::string>> sizes;

  /// Whether a class, a function, a value or an import of this name is there.
  [[nodiscard]] bool defines(std::string_view name) const;
};

/// Whatever the bytes; where Python's tokenizer refuses them, of what comes before. Linear in their
/// number but for lists, which are short or cut.
python_outline outline_of(std::string_view text);

}  // namespace quern::env
