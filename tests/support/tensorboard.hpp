// A Python that has TensorBoard, where tools/setup.sh --tensorboard has made one.
#pragma once

#include <filesystem>
#include <optional>

#include "support/test.hpp"

namespace quern::test {

/// Nothing: .venv-tensorboard is not there.
inline std::optional<std::filesystem::path> python_with_tensorboard() {
  const std::filesystem::path python = source_dir() / ".venv-tensorboard/bin/python";
  std::error_code none;
  if (std::filesystem::exists(python, none)) return python;
  return std::nullopt;
}

}  // namespace quern::test
