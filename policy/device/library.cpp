// Loading of the device's libraries.
#include "policy/device/library.hpp"

#include <filesystem>
#include <string>

#include <dlfcn.h>

#include "base/program.hpp"

namespace quern::policy {
namespace {

base::expected<void*> open_beside_program(const char* file) {
  const auto path = base::program_folder() / file;
  std::error_code code;
  if (!std::filesystem::exists(path, code))
    return base::fail(base::errc::unavailable,
                      "this build has no {}: nvcc was not found when it was configured; run "
                      "tools/setup.sh, then cmake --fresh",
                      path.string());
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return base::fail(base::errc::unavailable, "{}", ::dlerror());
  return library;
}

/// Sets `to` to the library's function of that name; false without one.
template <class F>
bool find_function(void* library, const char* name, F& to) {
  to = reinterpret_cast<F>(::dlsym(library, name));
  return to != nullptr;
}

base::expected<const quern_policy_kernels*> load_cuda_kernels() {
  QUERN_TRY(void* library, open_beside_program("libquern_policy_cuda.so"));
  decltype(&quern_policy_cuda_kernels) table = nullptr;
  if (!find_function(library, "quern_policy_cuda_kernels", table))
    return base::fail(base::errc::unavailable, "libquern_policy_cuda.so is of another build");
  return table();
}

base::expected<const graph_functions*> load_graph_functions() {
  QUERN_TRY(void* library, open_beside_program("libquern_policy_graph.so"));
  static graph_functions f;
  if (!find_function(library, "quern_policy_graph_open", f.open) ||
      !find_function(library, "quern_policy_graph_capture", f.capture) ||
      !find_function(library, "quern_policy_graph_replay", f.replay) ||
      !find_function(library, "quern_policy_graph_problem", f.problem) ||
      !find_function(library, "quern_policy_graph_close", f.close))
    return base::fail(base::errc::unavailable, "libquern_policy_graph.so is of another build");
  return &f;
}

}  // namespace

base::expected<const quern_policy_kernels*> cuda_policy_kernels() {
  static const base::expected<const quern_policy_kernels*> table = load_cuda_kernels();
  return table;
}

base::expected<const graph_functions*> cuda_graph_functions() {
  static const base::expected<const graph_functions*> functions = load_graph_functions();
  return functions;
}

const quern_policy_kernels* cuda_policy_kernels_or_null() {
  static const quern_policy_kernels* const table = [] {
    const auto found = cuda_policy_kernels();
    return found ? *found : nullptr;
  }();
  return table;
}

}  // namespace quern::policy
