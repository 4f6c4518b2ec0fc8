#include "policy/weights/model_digest.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "policy/weights/safetensors.hpp"

namespace quern::policy {
namespace {

namespace fs = std::filesystem;

/// Beside the weights; chat.cpp, model_config_json.cpp and tokenizer.cpp read them.
constexpr std::array<std::string_view, 5> text_files{"config.json", "generation_config.json",
                                                     "tokenizer.json", "tokenizer_config.json",
                                                     "chat_template.jinja"};

constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20U;

/// `count` bytes from `begin` on, in pieces that do not depend on how much a read gives.
base::status add_bytes(base::hasher& hash, int fd, const fs::path& file, std::uint64_t begin,
                       std::uint64_t count) {
  std::string buffer(static_cast<std::size_t>(std::min(count, piece_bytes)), '\0');
  while (count > 0) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(count, buffer.size()));
    std::size_t got = 0;
    while (got < wanted) {
      const ssize_t more =
          ::pread(fd, buffer.data() + got, wanted - got, static_cast<off_t>(begin + got));
      if (more < 0 && errno == EINTR) continue;
      if (more < 0) return base::fail_errno("cannot read " + file.string());
      if (more == 0)
        return base::fail(base::errc::io, "{} became shorter while it was read", file.string());
      got += static_cast<std::size_t>(more);
    }
    hash.add(std::string_view(buffer.data(), wanted));
    begin += wanted;
    count -= wanted;
  }
  return {};
}

base::expected<model_file> look_at(const fs::path& folder, std::string name,
                                   const digest_extent& extent) {
  std::error_code code;
  const std::uint64_t size = fs::file_size(folder / name, code);
  if (code)
    return base::fail(base::errc::io, "cannot look at {}: {}", (folder / name).string(),
                      code.message());
  QUERN_TRY(const base::hash128 digest, digest_file(folder / name, extent));
  return model_file{std::move(name), size, digest};
}

}  // namespace

base::expected<base::hash128> digest_file(const fs::path& file, const digest_extent& extent) {
  const base::unique_fd opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened) return base::fail_errno("cannot open " + file.string());
  struct stat info {};
  if (::fstat(opened.get(), &info) != 0) return base::fail_errno("cannot look at " + file.string());
  const auto size = static_cast<std::uint64_t>(info.st_size);
  base::hasher hash;
  hash.add(size);
  if (size <= std::max(extent.whole, extent.block)) {
    QUERN_CHECK(add_bytes(hash, opened.get(), file, 0, size));
    return hash.digest();
  }
  QUERN_CHECK(add_bytes(hash, opened.get(), file, 0, std::min(extent.first, size)));
  const std::uint64_t last = size - extent.block;
  const std::uint64_t steps = std::max<std::uint64_t>(extent.blocks, 2) - 1;
  for (std::uint64_t k = 0; k <= steps; ++k) {
    // As k * last / steps, without a product that overflows.
    const std::uint64_t begin = last / steps * k + last % steps * k / steps;
    QUERN_CHECK(add_bytes(hash, opened.get(), file, begin, extent.block));
  }
  return hash.digest();
}

base::expected<std::vector<model_file>> digest_model(const fs::path& folder,
                                                     const digest_extent& extent) {
  QUERN_TRY(std::vector<std::string> names, weight_files(folder));
  for (const std::string_view name : text_files) {
    std::error_code ignored;
    if (fs::exists(folder / name, ignored)) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  std::vector<model_file> files;
  for (std::string& name : names) {
    QUERN_TRY(model_file file, look_at(folder, std::move(name), extent));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace quern::policy
