// What a candidate asked torch.utils.cpp_extension.load_inline or load for, as a value.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"

namespace quern::env {

/// Bounds of one request. They hold for what a sandboxed process wrote, so they are checked first.
inline constexpr std::size_t most_extension_bytes = std::size_t{1} << 20;
inline constexpr std::size_t most_extension_items = 64;  ///< of each list
inline constexpr std::size_t most_extension_name = 128;

struct named_text {
  std::string name;
  std::string text;
  bool operator==(const named_text&) const = default;
};

/// The arguments of one call, in the order in which they were given. Flags and paths are not yet
/// judged (extension_flags.hpp).
struct extension_request {
  std::string name;                      ///< of the module: an identifier
  std::vector<std::string> cpp_sources;  ///< load_inline
  std::vector<std::string> cuda_sources;
  /// Name and documentation; none: the sources bind by themselves.
  std::optional<std::vector<named_text>> functions;
  std::vector<named_text> files;    ///< load: base names and texts of its sources
  std::vector<named_text> headers;  ///< what lay beside them
  std::vector<std::string> cflags, cuda_cflags, ldflags, include_paths;
  bool with_cuda = false;
  bool error_handling = true;    ///< with_pytorch_error_handling
  bool implicit_headers = true;  ///< not no_implicit_headers
  bool operator==(const extension_request&) const = default;
};

/// Reads the JSON that extension_calls.py writes: exactly its keys, within the bounds. Error
/// (invalid_argument): which key, what was found, what is allowed.
base::expected<extension_request> parse_extension_request(std::string_view json);

/// The same request as one line of JSON with sorted keys; parse(write(x)) is x.
std::string write_extension_request(const extension_request& request);

/// Key of the artefact. Every field counts, and lists count in the order in which they were given.
/// `toolchain`: fingerprint of compilers, headers and flags of ours.
base::hash128 extension_key(const extension_request& request, std::string_view architecture,
                            const base::hash128& toolchain);

}  // namespace quern::env
