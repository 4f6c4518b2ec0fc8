// The file system that a sandboxed process sees.
#include "env/sandbox/mounts.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace quern::env {
namespace {

// Any folder that exists everywhere: the views of the host are taken before it is covered.
constexpr const char* mount_point = "/usr";

// A private copy of the host's mounts below the path, made read-only before anybody can see it.
bool take_view(setup_plan::visible& item) {
  item.tree =
      open_tree(AT_FDCWD, item.path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
  if (item.tree < 0) return item.processes;  // only needed where a fresh one cannot be had
  mount_attr attributes{};
  // A device can be written through a read-only mount: that is about the file, not about what it
  // stands for.
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;
  attributes.attr_set |= item.device ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_NODEV;
  if (item.processes)
    attributes.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NODEV;
  return mount_setattr(item.tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes,
                       sizeof attributes) == 0;
}

// mkdir -p of the parents of "/a/b/c", below the current folder.
bool make_parents(const char* path) {
  char buffer[1024];
  const std::size_t length = std::strlen(path);
  if (length >= sizeof buffer) {
    errno = ENAMETOOLONG;
    return false;
  }
  std::memcpy(buffer, path, length + 1);
  for (char* slash = std::strchr(buffer + 1, '/'); slash != nullptr;
       slash = std::strchr(slash + 1, '/')) {
    *slash = '\0';
    if (mkdir(buffer + 1, 0755) != 0 && errno != EEXIST) return false;
    *slash = '/';
  }
  return true;
}

bool place(const setup_plan::visible& item) {
  const char* relative = item.path.c_str() + 1;
  if (!make_parents(item.path.c_str())) return false;
  if (!item.link.empty()) return symlink(item.link.c_str(), relative) == 0 || errno == EEXIST;
  if (item.folder) {
    if (mkdir(relative, 0755) != 0 && errno != EEXIST) return false;
  } else {
    const int fd = open(relative, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0444);
    if (fd < 0) return false;
    close(fd);
  }
  // In a container whose own /proc is covered in places Linux refuses a fresh one to a user
  // namespace; then it is the container's, with the processes that it shows.
  if (item.processes &&
      mount("proc", relative, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=2") == 0)
    return true;
  return move_mount(item.tree, "", AT_FDCWD, relative, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

}  // namespace

bool enter_new_root(setup_plan& plan, setup_failure& failure) {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return fail_at(failure, layer::mountns, "making mounts private");
  for (auto& item : plan.visibles)
    if (item.link.empty() && !take_view(item)) {
      if (errno == ENOSYS) return fail_at(failure, layer::read_only_root, "mount_setattr");
      std::strncpy(failure.step, item.path.c_str(), sizeof failure.step - 1);
      failure.which = layer::mountns;
      failure.error = errno;
      return false;
    }
  if (mount("tmpfs", mount_point, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755") != 0 ||
      chdir(mount_point) != 0)
    return fail_at(failure, layer::mountns, "mounting a new root");
  for (const auto& item : plan.visibles)
    if (!place(item)) return fail_at(failure, layer::mountns, item.path.c_str());
  for (auto& item : plan.visibles)
    if (item.tree >= 0) close(item.tree);
  if (!plan.work_options.empty()) {
    if (mkdir(inner_work_folder + 1, 0700) != 0 ||
        mount("tmpfs", inner_work_folder + 1, "tmpfs", MS_NOSUID | MS_NODEV,
              plan.work_options.c_str()) != 0)
      return fail_at(failure, layer::mountns, "mounting the work folder");
    plan.work_fd = open(inner_work_folder + 1, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (plan.work_fd < 0) return fail_at(failure, layer::mountns, "opening the work folder");
  }
  if (syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)
    return fail_at(failure, layer::mountns, "pivot_root");
  if (plan.want.has(layer::read_only_root)) {
    mount_attr attributes{};
    attributes.attr_set = MOUNT_ATTR_RDONLY;
    if (mount_setattr(AT_FDCWD, "/", 0, &attributes, sizeof attributes) != 0)
      return fail_at(failure, layer::read_only_root, "making the root read-only");
  }
  return true;
}

}  // namespace quern::env
