// A Python that has transformers, where tools/setup.sh --python has made one.
#pragma once

#include <filesystem>
#include <optional>

#include "support/test.hpp"

namespace quern::test {

/// Nothing: .venv-python is not there, or has PyTorch alone (tools/setup.sh --pytorch).
inline std::optional<std::filesystem::path> python_with_transformers() {
  namespace fs = std::filesystem;
  const fs::path venv = source_dir() / ".venv-python";
  std::error_code none;
  for (const auto& version : fs::directory_iterator(venv / "lib", none))
    if (fs::exists(version.path() / "site-packages/transformers", none)) return venv / "bin/python";
  return std::nullopt;
}

}  // namespace quern::test
