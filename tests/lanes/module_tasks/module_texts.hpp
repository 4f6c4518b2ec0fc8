// Modules and trees of our own for tests.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.hpp"
#include "support/test.hpp"

namespace quern::test {

/// A module that is a task; `operation` is what forward returns of x.
inline std::string module_text(std::string_view operation = "x * 2") {
  return "import torch\nimport torch.nn as nn\n\nrows = 16\n\n\nclass Model(nn.Module):\n"
         "    def __init__(self):\n        super().__init__()\n\n"
         "    def forward(self, x):\n        return " +
         std::string(operation) +
         "\n\n\ndef get_inputs():\n    return [torch.rand(rows, 4)]\n\n\n"
         "def get_init_inputs():\n    return []\n";
}

/// A temporary folder in which files are written by their paths.
struct module_folder {
  base::temp_folder folder = base::temp_folder::make().value();
  [[nodiscard]] std::string path(const std::string& below = "") const {
    return below.empty() ? folder.path().string() : (folder.path() / below).string();
  }
  void write(const std::string& file, std::string_view text) const {
    const std::filesystem::path whole = folder.path() / file;
    REQUIRE(base::make_folders(whole.parent_path()));
    REQUIRE(base::write_file_atomic(whole, text));
  }
  /// Three levels as KernelBench has them, a version beside them, and what is no task.
  void write_tree(const std::string& at = "tree/KernelBench") const {
    write(at + "/level1/1_Square_matrix_multiplication_.py", module_text("x @ x.T"));
    write(at + "/level1/3_Batched_matrix_multiplication.py", module_text("x + 3"));
    write(at + "/level1/12_ReLU.py", module_text("x.relu()  # \xE2\x89\xA5 0"));
    write(at + "/level1/notes.py", "nothing here\n");
    write(at + "/level1/__init__.py", "");
    write(at + "/level2/1_Linear_ReLU.py", module_text("x.relu() + 1"));
    write(at + "/level4/7_gpt2_bs32_seq256.py",
          "from transformers import AutoConfig, AutoModelForCausalLM\nname = 'gpt2'\n"
          "config = AutoConfig.from_pretrained(name)\n" +
              module_text("x + 7"));
    write(at + "/changelog/v0.1/level1/3_Batched_matrix_multiplication.py", module_text("x + 31"));
    write(at + "/changelog/v0.2", "a text\n");
  }
};

}  // namespace quern::test
