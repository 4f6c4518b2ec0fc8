// The declarations in C++ that a candidate of a lane of kernels has to define for a task.
#pragma once

#include <string>
#include <string_view>

#include "env/task/task.hpp"

namespace quern::env {

/// One line without the final semicolon, for example
///   extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, void*
///   stream)
/// inputs, outputs and sizes in file order; `stream`: the last parameter's type, with a space or a
/// star at its end.
std::string kernel_prototype(const task& what, std::string_view stream);

/// The optional second entry, also without semicolon: extern "C" int64_t workspace_bytes(int64_t n,
/// int64_t m)
std::string workspace_prototype(const task& what);

}  // namespace quern::env
