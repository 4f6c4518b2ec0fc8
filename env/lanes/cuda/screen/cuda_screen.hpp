// The static screen of lane `cuda`: rules that can be read off the text.
#pragma once

#include <optional>
#include <string_view>

#include "env/screen/screen_finding.hpp"

namespace quern::env {

/// What a suite allows in lane `cuda` (suite_policy).
struct cuda_screen_policy {
  bool library_calls = false;  ///< cuBLAS, cuDNN, CUTLASS, …
  bool graphs = true;          ///< stream capture and CUDA graphs
};

/// The first rule of lane `cuda` that the source breaks, in order of lines; none: it may be
/// compiled. Pure; linear in the text. Function-like macros, conditionals and inline PTX are
/// allowed there: every word of every branch is read, and a macro may neither paste words nor hide
/// half a pair of brackets or a declaration.
std::optional<screen_finding> screen_cuda(std::string_view source,
                                          const cuda_screen_policy& policy);

}  // namespace quern::env
