#include "policy/weights/weight_channel.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/file.hpp"

namespace quern::policy {
namespace fs = std::filesystem;
using base::errc;
using base::fail;

base::expected<fs::path> make_weights_folder(const fs::path& fallback) {
  constexpr long tmpfs_magic = 0x01021994;
  struct statfs info {};
  const bool shared_memory = ::statfs("/dev/shm", &info) == 0 && info.f_type == tmpfs_magic &&
                             ::access("/dev/shm", W_OK) == 0;
  std::string name =
      ((shared_memory ? fs::path("/dev/shm") : fallback) / "quern-weights.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    return base::fail_errno("cannot make a folder like " + name);
  return fs::path(name);
}

base::expected<std::string> publish_weights(const fs::path& folder, std::int64_t version,
                                            std::span<const std::byte> arena) {
  const std::string name = version % 2 == 0 ? "even" : "odd";
  const std::string temporary = (folder / (name + ".new")).string();
  const base::unique_fd file(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) return base::fail_errno("cannot publish weights as " + temporary);
  QUERN_CHECK(
      base::write_all(file.get(), {reinterpret_cast<const char*>(arena.data()), arena.size()}));
  if (::rename(temporary.c_str(), (folder / name).c_str()) != 0) {
    return base::fail_errno("cannot publish weights as " + name);
  }
  return name;
}

base::status read_weights(const fs::path& folder, const std::string& file,
                          std::span<std::byte> arena) {
  const fs::path path = folder / fs::path(file).filename();
  const base::unique_fd handle(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!handle) return base::fail_errno("cannot read weights " + path.string());
  struct stat info {};
  if (::fstat(handle.get(), &info) != 0) return base::fail_errno("cannot look at " + path.string());
  if (static_cast<std::size_t>(info.st_size) != arena.size()) {
    return fail(errc::corrupt, "weights {} have {} bytes, the model has {}", path.string(),
                info.st_size, arena.size());
  }
  std::size_t done = 0;
  while (done < arena.size()) {
    const ssize_t count = ::read(handle.get(), arena.data() + done, arena.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::fail_errno("cannot read weights " + path.string());
    if (count == 0) return fail(errc::corrupt, "weights {} end early", path.string());
    done += static_cast<std::size_t>(count);
  }
  return {};
}

}  // namespace quern::policy
