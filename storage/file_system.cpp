#include "storage/file_system.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <linux/magic.h>
#include <sys/vfs.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace quern::storage {
namespace fs = std::filesystem;
namespace {

struct magic_number {
  std::uint64_t magic;
  std::string_view name;
};

/// Of linux/magic.h, and of file systems that are not in Linux's tree, as coreutils' stat
/// knows them (src/fs.h).
constexpr std::array network_magics = {
    magic_number{NFS_SUPER_MAGIC, "NFS"},
    magic_number{SMB_SUPER_MAGIC, "SMB"},
    magic_number{CIFS_SUPER_MAGIC, "SMB (CIFS)"},
    magic_number{SMB2_SUPER_MAGIC, "SMB"},
    magic_number{NCP_SUPER_MAGIC, "NCP"},
    magic_number{V9FS_MAGIC, "9p"},
    magic_number{AFS_SUPER_MAGIC, "AFS"},
    magic_number{AFS_FS_MAGIC, "AFS"},
    magic_number{CODA_SUPER_MAGIC, "Coda"},
    magic_number{CEPH_SUPER_MAGIC, "Ceph"},
    magic_number{OCFS2_SUPER_MAGIC, "OCFS2"},
    magic_number{0x01161970, "GFS2"},
    magic_number{0x0BD00BD0, "Lustre"},
    magic_number{0x47504653, "GPFS (Spectrum Scale)"},
    magic_number{0x19830326, "BeeGFS"},
    magic_number{0xAAD7AAEA, "PanFS"},
    magic_number{0x20030528, "OrangeFS"},
    magic_number{0x786F4256, "a folder shared by VirtualBox"},
};

/// FUSE has local file systems, too (fuse-overlayfs of containers, ntfs-3g), so that only those of
/// a network are refused.
constexpr std::array<std::string_view, 17> network_fuse = {
    "sshfs",     "s3fs",     "glusterfs", "gcsfuse",   "rclone",    "juicefs",
    "mfs",       "goofys",   "moosefs",   "ceph",      "ceph-fuse", "davfs",
    "curlftpfs", "lizardfs", "weed",      "blobfuse2", "mount-s3"};

/// "fuse.sshfs" > "sshfs"; of others the type itself.
std::string_view below_fuse(std::string_view type) {
  constexpr std::string_view prefix = "fuse.";
  return type.starts_with(prefix) ? type.substr(prefix.size()) : type;
}

/// mountinfo writes blanks and the like as \040.
std::string without_escapes(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      return i + at < text.size() && text[i + at] >= '0' && text[i + at] <= '7';
    };
    if (text[i] == '\\' && digit(1) && digit(2) && digit(3)) {
      out +=
          static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool lies_below(const fs::path& path, const fs::path& folder) {
  const auto [rest, ignored] =
      std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  // "/" and "/a/" end with an empty part or the root.
  return rest == folder.end() || (rest->empty() && std::next(rest) == folder.end());
}

}  // namespace

file_system file_system_of(std::uint64_t magic, std::string_view mounted_as) {
  for (const magic_number& known : network_magics)
    if (known.magic == magic) return {std::string(known.name), true};
  if (magic != FUSE_SUPER_MAGIC) return {"a local file system", false};
  const std::string_view kind = below_fuse(mounted_as);
  if (std::find(network_fuse.begin(), network_fuse.end(), kind) != network_fuse.end())
    return {fmt::format("{} (FUSE)", kind), true};
  return {"a local file system", false};
}

std::string mount_type_of(std::string_view mountinfo, const fs::path& path) {
  // 36 35 98:0 /root /mount/point options [fields ...] - type source options
  std::string best;
  std::size_t longest = 0;
  for (const std::string_view line : base::split(mountinfo, '\n')) {
    const auto words = base::split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 5 || dash == words.end() || std::next(dash) == words.end()) continue;
    const std::string point = without_escapes(words[4]);
    if (point.size() < longest || !lies_below(path, point)) continue;
    longest = point.size();
    best = *std::next(dash);
  }
  return best;
}

file_system file_system_at(const fs::path& path) {
  std::error_code code;
  fs::path there = fs::absolute(path, code);
  while (!fs::exists(there, code) && there.has_relative_path())
    there = there.parent_path();
  struct statfs told {};
  if (::statfs(there.c_str(), &told) != 0) return {"a local file system", false};
  // The field is signed, and 32 bits wide on some machines.
  const std::uint64_t magic = static_cast<std::uint32_t>(told.f_type);
  std::string type;
  if (magic == FUSE_SUPER_MAGIC) {
    const fs::path real = fs::canonical(there, code);
    type = mount_type_of(base::read_file("/proc/self/mountinfo", 16U << 20U).value_or(""),
                         code ? there : real);
  }
  return file_system_of(magic, type);
}

base::status check_file_system(const fs::path& folder, const file_system_probe& probe) {
  const file_system found = probe(folder);
  if (!found.network) return {};
  return base::fail(
      base::errc::unavailable,
      "{} is on {}, a network file system, where SQLite's write-ahead log (run.db-wal) "
      "is not safe: put it on a disk of this machine (ext4, xfs, btrfs, tmpfs), copy it "
      "when the run has ended, and where other hosts need it share it from here",
      folder.string(), found.name);
}

}  // namespace quern::storage
