// Compiling a candidate of lane `cpp` inside the sandbox, into a content-addressed cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"
#include "env/build/compile_result.hpp"
#include "env/lanes/cpp/screen/prelude.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

struct cpp_compile_request : compile_limits {
  /// The candidate as it was written. The screen is not applied here.
  std::string source;
  /// Declarations of the two entries of the task; compiled before the source, after the prelude.
  std::string prototype;
};

struct cpp_compiler_options {
  /// Artefacts; made when missing. Shared by any number of processes.
  std::filesystem::path cache_dir = {};
  /// The precompiled prelude, which takes seconds to make and is the same in every run; may be
  /// shared like the other. Empty: in cache_dir.
  std::filesystem::path prelude_dir = {};
  /// Empty: the first g++ of PATH that is not a wrapper of ccache or distcc.
  std::filesystem::path program = {};
  /// Oldest artefacts go first when the cache is larger.
  std::int64_t cache_bytes = std::int64_t{1} << 30;
};

/// The flags of lane `cpp` (docs/formats/task.md), part of the environment's fingerprint.
const std::vector<std::string>& cpp_lane_flags();

/// Thread-safe; compiles as many candidates side by side as there are callers. `spawner` outlives
/// it.
class cpp_compiler {
 public:
  /// Finds the compiler, asks its version, precompiles the prelude unless the cache has it (2 s
  /// once).
  static base::expected<std::unique_ptr<cpp_compiler>> create(spawner& children,
                                                              cpp_compiler_options options);
  ~cpp_compiler();

  /// Errors are of this host (disk, sandbox, a compiler that others killed twice or that fails on a
  /// text of ours, too), never of the candidate.
  base::expected<compile_result> compile(const cpp_compile_request& request);

  /// Key under which compile() would store this request.
  [[nodiscard]] base::hash128 key_of(const cpp_compile_request& request) const;

  /// "g++ (Debian 12.2.0-14+deb12u1) 12.2.0"
  [[nodiscard]] const std::string& version() const;

  /// Hash of version, flags, what -march=native means here, and prelude: changes whenever the same
  /// source could compile to something else.
  [[nodiscard]] const base::hash128& fingerprint() const;

  struct state;

 private:
  explicit cpp_compiler(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace quern::env
