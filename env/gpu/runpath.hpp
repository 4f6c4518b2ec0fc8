// Where the loader looks for the libraries of a program: what a sandbox has to show of it.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::env {

/// The folders in the RUNPATH (or RPATH) of a program or library, $ORIGIN replaced, in their order;
/// empty ones and relative ones left out. `file`: its bytes, ELF of 64 bits; `folder`: where it
/// lies. Bytes that are no such file, or a damaged one, have none.
std::vector<std::filesystem::path> run_path_of(std::string_view file,
                                               const std::filesystem::path& folder);

/// Folders that a program which links LibTorch needs besides the system's: those of its run path
/// that are there, and behind LibTorch's the one where the wheels of NVIDIA's libraries lie.
/// Errors: the program cannot be read.
base::expected<std::vector<std::filesystem::path>> torch_library_folders(
    const std::filesystem::path& program);

}  // namespace quern::env
