// Where the PyTorch of a Python lies, for compilers: its headers and libraries, and those of
// Python.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace quern::env {

struct python_torch {
  std::filesystem::path program;       ///< the Python
  std::filesystem::path torch;         ///< the package's folder, with include and lib
  std::filesystem::path headers;       ///< the folder of Python.h
  std::string version;                 ///< "2.11.0+cu130"
  bool cuda = false;                   ///< built with CUDA
  std::vector<std::string> read_only;  ///< what a sandboxed run of this Python has to see

  /// For -isystem, in order.
  [[nodiscard]] std::vector<std::string> include_folders() const;
  [[nodiscard]] std::filesystem::path library_folder() const { return torch / "lib"; }
};

/// Asks `program`, which is of this host and trusted: tens of milliseconds, torch is not imported.
/// Empty: $QUERN_PYTHON, .venv-python and .venv above the running program, python3 of PATH; the
/// first that has torch and Python.h. Error (not_found): what was looked at and what to install.
base::expected<python_torch> find_python_torch(const std::filesystem::path& program = {});

}  // namespace quern::env
