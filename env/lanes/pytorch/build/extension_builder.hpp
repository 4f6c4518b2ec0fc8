// Builds the extensions that candidates ask for, in the sandbox, ahead of their run.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "env/build/compile_result.hpp"
#include "env/lanes/pytorch/build/extension_request.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

struct extension_limits : compile_limits {
  extension_limits() {
    wall_s = 300;
    memory_bytes = std::int64_t{8} << 30;
    file_bytes = 128 << 20;
    text_bytes = 64 << 10;
  }
};

struct extension_options {
  std::filesystem::path cache_dir = {};  ///< artefacts; made when missing
  std::int64_t cache_bytes = std::int64_t{2} << 30;
  std::filesystem::path python = {};    ///< empty: find_python_torch() looks for one
  std::filesystem::path toolkit = {};   ///< empty: find_cuda_toolkit() looks for one
  std::filesystem::path headers = {};   ///< empty: those of this build or installation
  std::string architecture = "sm_90a";  ///< the only one that is compiled for
  std::size_t shown_characters = 4000;  ///< of the compilers' text
  /// Whether LibTorch's headers are precompiled beside the first builds (headers_ahead.hpp). That
  /// needs a sandbox with layer mountns.
  bool headers_ahead = false;
  /// Where that is kept for all builders of this user; empty: in the cache.
  std::filesystem::path headers_dir = {};
  bool full_route = true;  ///< false: what fails by the slim route is an error without a text
  extension_limits limits = {};
};

/// A shared object named by its key, with PyInit_NAME of the request's name: Python loads it from a
/// read-only path (built_extensions.py).
struct extension_result : compile_result {
  enum class route {
    none,  ///< cached, or refused before a compiler ran
    slim,
    full
  };
  route by = route::none;
  std::string slim_text;  ///< why the slim route failed: for whoever mends it, not for a candidate
  double core_s = 0;      ///< processor time of all compilers, a slim try that failed included
  int full_runs = 0;      ///< how often it was compiled with torch's own headers
};

/// Thread-safe; builds as many side by side as there are callers, equal requests once. `children`
/// outlives it.
class extension_builder {
 public:
  /// Finds Python's torch, g++ and CUDA, and compiles the support object where the cache has none:
  /// then seconds. Errors: not_found (no torch, no g++), unavailable (they do not run).
  static base::expected<std::unique_ptr<extension_builder>> create(spawner& children,
                                                                   extension_options options);
  ~extension_builder();

  /// By the slim route, and with torch's own headers when that fails; `text` is of the latter
  /// alone, at most `shown_characters` from its first error on. Errors are of this host, never of
  /// the candidate; unavailable: a CUDA source, and no nvcc.
  base::expected<extension_result> build(const extension_request& request);
  /// By torch's own headers alone: for comparisons. Does not look into the cache, nor fill it;
  /// `artefact` is empty.
  base::expected<extension_result> build_fully(const extension_request& request);

  [[nodiscard]] base::hash128 key_of(const extension_request& request) const;
  /// Changes whenever the same request could be built to something else.
  [[nodiscard]] const base::hash128& fingerprint() const;
  [[nodiscard]] bool has_cuda() const;
  /// Waits until headers are precompiled, where the options ask for it. Error: why they are not.
  /// One call at a time.
  base::status headers_read();
  /// The Python whose torch is built for.
  [[nodiscard]] const std::filesystem::path& python() const;

  struct state;

 private:
  explicit extension_builder(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace quern::env
