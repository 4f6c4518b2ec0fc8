// blobs/ab/<xxh128>.zst: bytes by the hash of their content (sources, tokens, prompts). Written
// once, whole and durable; read with the hash checked.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/hash.hpp"
#include "base/status.hpp"

namespace quern::storage {

/// Larger blobs are refused, on writing and on reading: a file of a few bytes can claim to hold
/// terabytes.
inline constexpr std::size_t max_blob_bytes = 64U << 20U;

/// Thread-safe: it holds no state but the folder, and equal content may be written twice.
class blob_store {
 public:
  explicit blob_store(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Stores `bytes` and returns its address. On return the blob survives a power cut.
  base::expected<base::hash128> put(std::string_view bytes) const;

  /// `not_found`, or `corrupt` when the content does not have this hash.
  [[nodiscard]] base::expected<std::string> get(const base::hash128& hash) const;

  /// There and intact.
  [[nodiscard]] bool readable(const base::hash128& hash) const { return get(hash).has_value(); }

  [[nodiscard]] std::filesystem::path path_of(const base::hash128& hash) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace quern::storage
