// What any compiler in the sandbox may use, and what it gives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "env/sandbox/layer.hpp"

namespace quern::env {

/// What one compilation may use.
struct compile_limits {
  double wall_s = 10;
  std::int64_t memory_bytes = std::int64_t{1} << 30;  ///< of the whole compiler tree
  std::int64_t file_bytes = 16 << 20;  ///< of the artefact and of each temporary file
  std::int64_t text_bytes = 16 << 10;  ///< of each stream of the compiler's text that is kept
};

struct compile_result {
  enum class kind {
    built,
    error,   ///< the compiler refused, or ran into memory or file size; `text` says which
    timeout  ///< wall_s was over
  };
  kind outcome = kind::error;
  /// kind::built: a shared object, or device code (device_code.hpp); read-only, owned by the cache,
  /// which may drop it when it is full (open it before compiling much else).
  std::filesystem::path artefact;
  /// Key of the artefact: canonical source, prototype, prelude, flags, compiler version.
  base::hash128 key;
  std::string
      text;  ///< what the compiler said, bounded; positions are in "kernel.cpp" or "kernel.cu"
  std::vector<std::string> argv;  ///< the compiler's, for the verdict
  std::int64_t ms = 0;            ///< wall time of the compiler; 0 when cached
  bool cached = false;
  layer_set layers;  ///< of the compiler's sandbox; those of the spawner when cached
};

}  // namespace quern::env
