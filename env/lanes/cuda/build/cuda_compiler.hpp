// Compiling a candidate of lane `cuda` inside the sandbox, into the content-addressed cache: device
// code by NVRTC where no host code of the candidate runs, a shared object by nvcc otherwise.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"
#include "env/build/compile_result.hpp"
#include "env/build/cuda_toolkit.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

/// What a candidate is compiled to.
enum class cuda_form {
  device_only,  ///< by NVRTC; the artefact is a file of device code (device_code.hpp)
  host_entry    ///< by nvcc; the artefact is a shared object with `kernel`
};

struct cuda_compile_request : compile_limits {
  cuda_form form = cuda_form::device_only;
  /// device_only: the device part (launch_plan::device_source), every byte where it was.
  /// host_entry: the candidate as it was written. The screen is not applied here.
  std::string source;
  /// device_only: name expressions of the kernels whose symbols are wanted, "softmax<256, float>".
  std::vector<std::string> kernels;
  /// host_entry: declarations of the two entries of the task.
  std::string prototype;
  std::string architecture = "sm_90a";  ///< of the list of is_cuda_architecture()
  /// host_entry: link cuBLAS and cuDNN, where the suite's policy allows library calls.
  bool library_calls = false;

  /// Limits that fit the form: NVRTC takes tenths of a second, nvcc seconds.
  explicit cuda_compile_request(cuda_form which = cuda_form::device_only) : form(which) {
    wall_s = which == cuda_form::device_only ? 30 : 60;
    memory_bytes = std::int64_t{4} << 30;
    file_bytes = 64 << 20;
  }
};

struct cuda_compiler_options {
  /// Artefacts; made when missing. May be that of `cpp_compiler`: keys never meet.
  std::filesystem::path cache_dir = {};
  /// Empty: find_cuda_toolkit() looks for it.
  std::filesystem::path toolkit = {};
  /// Empty: quern-runner beside the running program.
  std::filesystem::path runner_program = {};
  std::int64_t cache_bytes = std::int64_t{1} << 30;
};

/// The flags of a form for `architecture`, part of the environment's fingerprint.
std::vector<std::string> cuda_lane_flags(cuda_form form, const std::string& architecture);

/// Thread-safe; compiles as many candidates side by side as there are callers. `spawner` outlives
/// it.
class cuda_compiler {
 public:
  /// Finds the toolkit and reads its identity: milliseconds. Errors: not_found says what to
  /// install.
  static base::expected<std::unique_ptr<cuda_compiler>> create(spawner& children,
                                                               cuda_compiler_options options);
  ~cuda_compiler();

  /// The toolkit may have one compiler only.
  [[nodiscard]] bool can(cuda_form form) const;

  /// Errors are of this host (disk, sandbox, a compiler that is not there) or of the request
  /// (an architecture or name expression that is none), never of the candidate.
  base::expected<compile_result> compile(const cuda_compile_request& request);

  /// Key under which compile() would store this request.
  [[nodiscard]] base::hash128 key_of(const cuda_compile_request& request) const;

  [[nodiscard]] const cuda_toolkit& toolkit() const;

  /// "NVRTC of CUDA 13.0; nvcc 13.0, V13.0.88; g++ (Debian …) 12.2.0", as far as they are there.
  [[nodiscard]] const std::string& version() const;

  /// Hash of compilers, headers, flags and preludes: changes whenever the same source could compile
  /// to something else.
  [[nodiscard]] const base::hash128& fingerprint() const;

  struct state;

 private:
  explicit cuda_compiler(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace quern::env
