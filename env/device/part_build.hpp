// What is loaded at run time is of the build that this program is of, or it is an error: a stale
// library beside a new program would measure by other rules under the new program's name.
//
// libc only: quern-runner asks, too.
#pragma once

#include <cstddef>

namespace quern::env {

/// Hashes of what each part is made of (cmake/PartBuilds.cmake), as this program was built with.
/// They live as long as the program.
const char* cuda_part_build();  ///< libquern_cuda.so: sources, compilers, flags, architectures
const char* aten_part_build();  ///< libquern_aten_cuda.so: sources, compilers, flags, LibTorch
/// compiled_reference.py as it was, whole.
const char* compiled_reference_text();

/// Names of the functions with which a library tells its build: `const char* ()`.
inline constexpr const char* cuda_build_function = "quern_cuda_build";
inline constexpr const char* aten_build_function = "quern_aten_cuda_build";

/// Whether `found` (null: it tells none) is `wanted`. If not, `problem` names the file, both builds
/// and what to do.
bool is_of_this_build(const char* path, const char* found, const char* wanted, char* problem,
                      std::size_t room);
/// The same for a library that dlopen() loaded from `path`.
bool is_of_this_build(void* library, const char* function, const char* path, const char* wanted,
                      char* problem, std::size_t room);

}  // namespace quern::env
