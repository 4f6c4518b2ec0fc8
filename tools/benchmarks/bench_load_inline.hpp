// torch's own load_inline beside our builder, for benchmarks.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/lanes/pytorch/build/extension_request.hpp"
#include "env/lanes/pytorch/build/python_torch.hpp"
#include "env/sandbox/child.hpp"

namespace quern::tools {

struct torch_figures {
  bool built = false;
  double wall_s = 0, core_s = 0;
  std::string text;                    ///< why it was not built
  std::vector<std::string> functions;  ///< exported_functions() of what it built
};

/// Builds one request by torch's own functions, in a sandboxed Python with compilers, a fresh
/// folder, and one architecture. Errors are of this host.
base::expected<torch_figures> build_by_torch(env::spawner& children,
                                             const env::python_torch& python,
                                             const env::extension_request& request);

/// Functions that a shared object exports and that are not of inlined code: mangled, so with the
/// types of their parameters; sorted. Error: nm does not run.
base::expected<std::vector<std::string>> exported_functions(env::spawner& children,
                                                            const std::filesystem::path& library);

}  // namespace quern::tools
