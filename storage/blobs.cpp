#include "storage/blobs.hpp"

#include <memory>

#include <zstd.h>

#include "base/file.hpp"

namespace quern::storage {
namespace {

/// Sources and token lists are small; a higher level saves little and costs much.
constexpr int compression_level = 3;

}  // namespace

std::filesystem::path blob_store::path_of(const base::hash128& hash) const {
  const std::string hex = base::to_hex(hash);
  return folder_ / hex.substr(0, 2) / (hex + ".zst");
}

base::expected<base::hash128> blob_store::put(std::string_view bytes) const {
  if (bytes.size() > max_blob_bytes) {
    return base::fail(base::errc::exhausted, "a blob of {} bytes, the limit is {}", bytes.size(),
                      max_blob_bytes);
  }
  const base::hash128 hash = base::xxh128(bytes);
  const std::filesystem::path path = path_of(hash);
  // Trusting a name alone would keep a file that a power cut or a bad disk emptied.
  if (readable(hash)) return hash;
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), compression_level);
  if (ZSTD_isError(size) != 0U) {
    return base::fail(base::errc::internal, "zstd: {}", ZSTD_getErrorName(size));
  }
  packed.resize(size);
  std::error_code ignored;
  if (!std::filesystem::is_directory(path.parent_path(), ignored)) {
    QUERN_CHECK(base::make_folders(path.parent_path()));
    QUERN_CHECK(base::sync_folder(folder_));
  }
  QUERN_CHECK(base::write_file_atomic(path, packed));
  return hash;
}

base::expected<std::string> blob_store::get(const base::hash128& hash) const {
  const std::filesystem::path path = path_of(hash);
  QUERN_TRY(const std::string packed, base::read_file(path, ZSTD_compressBound(max_blob_bytes)));
  const auto corrupt = [&](std::string_view why) {
    return base::fail(base::errc::corrupt,
                      "{}: {}; restore it from a copy of the run, or delete it: what needs it "
                      "is made again or left out",
                      path.string(), why);
  };
  const unsigned long long size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN) {
    return corrupt("not a zstd file that states its size");
  }
  if (size > max_blob_bytes) return corrupt("it claims to be larger than any blob");
  std::string bytes(size, '\0');
  const std::size_t got = ZSTD_decompress(bytes.data(), bytes.size(), packed.data(), packed.size());
  if (ZSTD_isError(got) != 0U) return corrupt(ZSTD_getErrorName(got));
  if (got != bytes.size() || base::xxh128(bytes) != hash) {
    return corrupt("its content does not have the hash in its name");
  }
  return bytes;
}

}  // namespace quern::storage
