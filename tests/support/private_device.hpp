// A character device that nobody else has: for tests of locks on the nodes of devices.
#pragma once

#include <cstdlib>
#include <filesystem>

#include <fcntl.h>

#include "base/file.hpp"

namespace quern::test {

/// A terminal of its own. Where this system makes none, /dev/full, which others may lock, too.
class private_device {
 public:
  private_device() : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    if (!master_ || ::unlockpt(master_.get()) != 0) return;
    char name[64];
    if (::ptsname_r(master_.get(), name, sizeof name) == 0 && std::filesystem::exists(name))
      node_ = name;
  }
  [[nodiscard]] const std::filesystem::path& node() const { return node_; }

 private:
  base::unique_fd master_;
  std::filesystem::path node_ = "/dev/full";
};

}  // namespace quern::test
