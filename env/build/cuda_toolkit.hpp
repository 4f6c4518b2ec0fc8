// Where CUDA's compilers lie on this machine.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::env {

struct cuda_toolkit {
  std::filesystem::path root;     ///< with bin, include, lib or lib64, nvvm; no links in it
  std::filesystem::path include;  ///< cuda_runtime.h, cuda_fp16.h, cccl/ …
  std::filesystem::path nvrtc;    ///< libnvrtc.so.13; empty: none
  std::filesystem::path nvcc;     ///< empty: none

  /// Folders that the compilers take headers from, in order.
  [[nodiscard]] std::vector<std::filesystem::path> include_folders() const;
  /// Folder of the runtime and of vendor libraries; need not be there.
  [[nodiscard]] std::filesystem::path library_folder() const;
  /// The files that NVRTC consists of, links included.
  [[nodiscard]] std::vector<std::string> nvrtc_files() const;
};

/// Looks at `root` where one is given; else in $CUDA_HOME, $CUDA_PATH, /usr/local/cuda, around the
/// nvcc of PATH, and in the wheels of PyPI (nvidia/cu13) of .venv above the running program, of
/// $VIRTUAL_ENV and of the python3 of PATH. Takes the first that has headers and at least one
/// compiler, and prefers one with both. Error (not_found): where it looked and what to install.
base::expected<cuda_toolkit> find_cuda_toolkit(const std::filesystem::path& root = {});

/// What may be compiled for: "sm_75" … "sm_90a" …; a closed list.
bool is_cuda_architecture(std::string_view name);

/// The architecture of a device of compute capability `major`.`minor` with all that belongs to it
/// alone ("sm_90a" for 9.0); empty: not in the list.
std::string cuda_architecture_for(int major, int minor);

}  // namespace quern::env
