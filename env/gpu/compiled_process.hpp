// References through torch.compile: a Python of this host that has torch and Triton runs
// env/reference/compiled_reference.py, which answers as a reference process does.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "env/gpu/reference_process.hpp"
#include "env/task/task.hpp"

namespace quern::env {

/// A Python that can compile references.
struct compiling_python {
  std::filesystem::path program;
  std::string versions;                ///< "torch 2.11.0+cu130, triton 3.6.0"
  std::vector<std::string> read_only;  ///< where it and its packages lie
};

/// Tries $QUERN_PYTHON (it alone, where it is set), the .venv above the running program,
/// $VIRTUAL_ENV, and python3 of PATH: imports torch in each, seconds. Error (unavailable): which
/// were tried, what the last of them said, and what to install.
base::expected<compiling_python> find_compiling_python(const std::filesystem::path& script);

/// The build of compiled_reference.py that this program goes with: 16 hexadecimal digits.
std::string compiled_reference_build();
/// Error (unavailable): the file is another one; the message names both builds.
base::status check_compiled_reference(const std::filesystem::path& script);

/// Where the fields of messages lie, in JSON, and the stated settings; what the script is told.
std::string message_layout();

/// What starts the script in the sandbox, but for where the device's files are. `library`:
/// libquern_cuda.so.
gpu_reference_start compiled_reference_start(const compiling_python& python,
                                             const std::filesystem::path& script,
                                             const std::filesystem::path& library);

/// The compiled references of one device: `count` processes that stay alive, started when they are
/// first needed. Their text is the task's, let through by TorchScript and by the script's own
/// closed grammar, and they are sandboxed like any reference: beyond the device they see compilers
/// and their Python, and write to a folder of their own, which goes with them. One thread.
class compiled_references {
 public:
  static constexpr std::size_t count = 3;

  /// `children` outlives this object. `library`: libquern_cuda.so. `access`: what the sandbox shows
  /// of the driver. `device`: as CUDA numbers those that the sandbox shows.
  compiled_references(spawner& children, std::filesystem::path library, gpu_access access,
                      int device)
      : children_(children),
        library_(std::move(library)),
        access_(std::move(access)),
        device_(device) {}

  /// Finds the Python, once: its versions.
  base::expected<std::string> versions();
  /// A process that has the task's text. Errors: invalid_argument (the text), unavailable.
  base::expected<gpu_link*> get(std::size_t i, const task& what);
  /// The same, compiled for a call. What does not compile does not in a second, fresh process
  /// either: a compiler that somebody killed is no fault of the text.
  base::expected<gpu_link*> compiled(std::size_t i, const task& what,
                                     const runner::gpu_call_request& call);
  void retire(std::size_t i) { places_[i] = {}; }

 private:
  struct place {
    std::unique_ptr<gpu_reference_process> process;
    std::string script_of;  ///< id of the task
  };
  base::status start(place& at);

  spawner& children_;
  std::filesystem::path library_;
  gpu_access access_;
  int device_;
  std::optional<base::expected<compiling_python>> python_;
  std::array<place, count> places_;
};

/// What compiling a reference may take, the first time, seconds.
inline constexpr double compile_reference_s = 240;

}  // namespace quern::env
