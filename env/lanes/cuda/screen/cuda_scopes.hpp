// The part of lane `cuda`'s static screen that knows where a token stands: in device code or on the
// host, in a function or outside.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "env/screen/lexer.hpp"
#include "env/screen/screen_finding.hpp"

namespace quern::env {

/// For each macro whose body is a list of specifiers (`#define DEVICE __device__ inline`): those.
using specifier_macros = std::map<std::string, std::set<std::string>>;

/// `program` without preprocessor lines. The first of: assembler outside device functions, kernels
/// that start kernels, device memory from a heap, device variables that survive the call, things
/// that are declared elsewhere. Linear in the number of tokens.
std::optional<screen_finding> screen_cuda_scopes(std::span<const token> program,
                                                 const specifier_macros& macros);

}  // namespace quern::env
