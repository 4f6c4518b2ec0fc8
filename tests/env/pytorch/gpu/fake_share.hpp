// The Python of lane pytorch with a device that is none (fake_device.py, fake_device.cpp).
#pragma once

#include <filesystem>

#include "base/file.hpp"
#include "support/test.hpp"

namespace quern::test {

/// A folder for QUERN_SHARE: fake_device.py stands in the place of module_device.py.
inline base::temp_folder share_with_a_fake_device() {
  namespace fs = std::filesystem;
  auto folder = base::temp_folder::make("quern-fake-device");
  REQUIRE(folder);
  const fs::path lane = fs::path("env/lanes/pytorch");
  for (const char* part : {"process", "build"}) {
    fs::create_directories(folder->path() / lane / part);
    for (const auto& one : fs::directory_iterator(source_dir() / lane / part))
      if (one.path().extension() == ".py")
        fs::copy_file(one.path(), folder->path() / lane / part / one.path().filename());
  }
  const fs::path process = folder->path() / lane / "process";
  fs::rename(process / "module_device.py", process / "module_device_of_gpus.py");
  fs::copy_file(source_dir() / "tests/env/pytorch/gpu/fake_device.py",
                process / "module_device.py");
  return std::move(*folder);
}

}  // namespace quern::test
