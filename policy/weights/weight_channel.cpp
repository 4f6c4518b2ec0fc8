#include "policy/weights/weight_channel.hpp"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace quern::policy {
namespace fs = std::filesystem;
using base::errc;
using base::fail;

namespace {

/// What a file begins with, in the byte order of this machine: no file leaves it.
struct file_head {
  std::array<char, 8> magic = {'Q', 'R', 'N', 'W', 'E', 'I', 'G', '1'};
  std::uint32_t type = 0;
  std::uint32_t unused = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(file_head) == 24);

base::status read_exactly(int file, std::span<std::byte> into, const fs::path& path) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t count = ::read(file, into.data() + done, into.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::fail_errno("cannot read weights " + path.string());
    if (count == 0) return fail(errc::corrupt, "weights {} end early", path.string());
    done += static_cast<std::size_t>(count);
  }
  return {};
}

/// After a write that failed and whose file is gone: what is known of the room there.
base::status told_with_room(const fs::path& file, std::size_t needed, const base::error& problem) {
  std::error_code code;
  const fs::space_info room = fs::space(file.parent_path(), code);
  // The error names what this process may write.
  rlimit largest{};
  const bool too_large = ::getrlimit(RLIMIT_FSIZE, &largest) == 0 && needed > largest.rlim_cur;
  if (code || problem.code != errc::exhausted || too_large)
    return base::in_context("cannot publish weights as " + file.string(), problem);
  return fail(errc::exhausted,
              "cannot publish weights as {}: {} are needed there, {} are free: remove files "
              "there (folders quern-weights.* of runs that are gone), make it larger (mount -o "
              "remount,size=..., --shm-size of a container), or set actors.weights to link",
              file.string(), base::human_bytes(needed), base::human_bytes(room.available));
}

}  // namespace

std::optional<fs::path> shared_memory_folder() {
  constexpr long tmpfs_magic = 0x01021994;
  constexpr const char* place = "/dev/shm";
  struct statfs info {};
  if (::statfs(place, &info) != 0 || info.f_type != tmpfs_magic || ::access(place, W_OK) != 0)
    return std::nullopt;
  return place;
}

base::expected<fs::path> make_weights_folder(const fs::path& fallback) {
  std::string name = (shared_memory_folder().value_or(fallback) / "quern-weights.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    return base::fail_errno("cannot make a folder like " + name);
  return fs::path(name);
}

base::expected<std::string> publish_weights(const fs::path& folder, std::int64_t version,
                                            weight_dtype type, std::span<const std::byte> arena) {
  const std::string name = version % 2 == 0 ? "even" : "odd";
  const fs::path temporary = folder / (name + ".new");
  const base::unique_fd file(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) return base::fail_errno("cannot publish weights as " + temporary.string());
  file_head head;
  head.type = static_cast<std::uint32_t>(type);
  head.bytes = arena.size();
  base::status written =
      base::write_all(file.get(), {reinterpret_cast<const char*>(&head), sizeof head});
  if (written)
    written =
        base::write_all(file.get(), {reinterpret_cast<const char*>(arena.data()), arena.size()});
  if (!written) {
    ::unlink(temporary.c_str());
    return tl::make_unexpected(told_with_room(temporary, arena.size(), written.error()).error());
  }
  if (::rename(temporary.c_str(), (folder / name).c_str()) != 0)
    return base::fail_errno("cannot publish weights as " + (folder / name).string());
  return name;
}

base::status read_weights(const fs::path& folder, const std::string& file, weight_dtype type,
                          std::span<std::byte> arena) {
  const fs::path path = folder / fs::path(file).filename();
  const base::unique_fd handle(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!handle) return base::fail_errno("cannot read weights " + path.string());
  file_head head;
  const auto expected_magic = head.magic;
  QUERN_CHECK(read_exactly(handle.get(), std::as_writable_bytes(std::span(&head, 1)), path));
  if (head.magic != expected_magic || head.type > static_cast<std::uint32_t>(weight_dtype::f16))
    return fail(errc::corrupt, "{} is no file of weights of this build", path.string());
  if (head.type != static_cast<std::uint32_t>(type))
    return fail(errc::corrupt, "weights {} are {}, {} was expected", path.string(),
                torch_name(static_cast<weight_dtype>(head.type)), torch_name(type));
  if (head.bytes != arena.size())
    return fail(errc::corrupt, "weights {} have {} bytes, the model has {}", path.string(),
                head.bytes, arena.size());
  return read_exactly(handle.get(), arena, path);
}

}  // namespace quern::policy
