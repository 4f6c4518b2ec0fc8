// Which compiler flags a candidate may ask for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "env/lanes/pytorch/build/extension_request.hpp"

namespace quern::env {

/// The flags of a request that are handed on. `refused` is not empty if one is not allowed: a text
/// for the candidate's author, and a compile error of the candidate.
struct extension_flags {
  std::vector<std::string> cxx;   ///< for g++
  std::vector<std::string> nvcc;  ///< for nvcc
  std::vector<std::string> link;  ///< for the linker's driver
  std::string refused;
};

/// By an allow-list. Left out without a word, because the build sets them itself: architectures,
/// threads of nvcc, and folders of CUDA and PyTorch. Refused: whatever reads other files, loads
/// plug-ins, names another compiler, or changes what is built.
extension_flags judge_flags(const extension_request& request);

}  // namespace quern::env
