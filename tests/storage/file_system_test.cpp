// Which file systems a ledger is refused on.
#include "storage/file_system.hpp"

#include <linux/magic.h>

#include "base/file.hpp"
#include "support/test.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;

TEST_CASE("file systems of a network are known by their number, local ones are not mistaken") {
  for (const auto& [magic, name] :
       std::initializer_list<std::pair<std::uint64_t, const char*>>{{NFS_SUPER_MAGIC, "NFS"},
                                                                    {SMB_SUPER_MAGIC, "SMB"},
                                                                    {SMB2_SUPER_MAGIC, "SMB"},
                                                                    {CIFS_SUPER_MAGIC, "CIFS"},
                                                                    {V9FS_MAGIC, "9p"},
                                                                    {CEPH_SUPER_MAGIC, "Ceph"},
                                                                    {AFS_SUPER_MAGIC, "AFS"},
                                                                    {AFS_FS_MAGIC, "AFS"},
                                                                    {0x0BD00BD0, "Lustre"},
                                                                    {0x47504653, "GPFS"},
                                                                    {0x19830326, "BeeGFS"}}) {
    CAPTURE(name);
    const file_system found = file_system_of(magic, "");
    CHECK(found.network);
    CHECK(contains(found.name, name));
  }
  for (const std::uint64_t magic :
       {std::uint64_t{EXT4_SUPER_MAGIC}, std::uint64_t{XFS_SUPER_MAGIC},
        std::uint64_t{BTRFS_SUPER_MAGIC}, std::uint64_t{TMPFS_MAGIC},
        std::uint64_t{OVERLAYFS_SUPER_MAGIC}, std::uint64_t{F2FS_SUPER_MAGIC},
        std::uint64_t{0x2FC12FC1} /* zfs */}) {
    CAPTURE(magic);
    CHECK_FALSE(file_system_of(magic, "nfs4").network);
  }
}

TEST_CASE("behind FUSE the type of the mount tells a network from this machine") {
  for (const char* type :
       {"fuse.sshfs", "fuse.s3fs", "fuse.glusterfs", "fuse.rclone", "fuse.ceph-fuse"}) {
    CAPTURE(type);
    const file_system found = file_system_of(FUSE_SUPER_MAGIC, type);
    CHECK(found.network);
    CHECK(contains(found.name, std::string(type).substr(5)));
  }
  for (const char* type : {"", "fuseblk", "fuse.fuse-overlayfs", "fuse.ntfs-3g", "virtiofs"}) {
    CAPTURE(type);
    CHECK_FALSE(file_system_of(FUSE_SUPER_MAGIC, type).network);
  }
}

TEST_CASE("the mount of a path is the innermost, and of two in one place the upper one") {
  const std::string mounts =
      "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
      "30 22 0:40 / /home rw shared:2 master:3 - nfs4 server:/home rw\n"
      "31 30 0:41 / /home/me/far rw - fuse.sshfs me@there: rw\n"
      "32 22 0:42 / /mnt/with\\040blank rw - fuse.rclone far: rw\n"
      "33 22 0:43 / /twice rw - ext4 /dev/sdb rw\n"
      "34 33 0:44 / /twice rw - tmpfs tmpfs rw\n"
      "no mount at all\n";
  CHECK(mount_type_of(mounts, "/srv/run") == "ext4");
  CHECK(mount_type_of(mounts, "/home") == "nfs4");
  CHECK(mount_type_of(mounts, "/homework/run") == "ext4");
  CHECK(mount_type_of(mounts, "/home/me/far/run") == "fuse.sshfs");
  CHECK(mount_type_of(mounts, "/mnt/with blank/run") == "fuse.rclone");
  CHECK(mount_type_of(mounts, "/twice/run") == "tmpfs");
  CHECK(mount_type_of("", "/srv/run").empty());
}

TEST_CASE("a folder on a network file system is refused by name, with what to do") {
  const auto on = [](bool network) {
    return [network](const std::filesystem::path&) {
      return file_system{network ? "NFS" : "a local file system", network};
    };
  };
  CHECK(check_file_system("/data/run", on(false)));
  const auto refused = check_file_system("/data/run", on(true));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == base::errc::unavailable);
  for (const char* part : {"/data/run is on NFS", "run.db-wal", "disk of this machine"})
    CHECK(contains(refused.error().message, part));
}

TEST_CASE("where the tests keep their files is local, as is what is not there yet") {
  const auto folder = base::temp_folder::make("file_system");
  REQUIRE(folder);
  CHECK_FALSE(file_system_at(folder->path()).network);
  CHECK_FALSE(file_system_at(folder->path() / "not/yet").network);
}

}  // namespace
}  // namespace quern::test
