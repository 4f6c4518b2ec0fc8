// Finds a process by the name that it has given itself.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/file.hpp"

namespace quern::test {

/// Of this name, and not ended; 0: none.
inline int process_called(const std::string& name) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const auto told = base::read_file(entry.path() / "stat", 4096);
    if (told && told->find("(" + name + ")") != std::string::npos &&
        told->find(") Z ") == std::string::npos)
      return std::atoi(entry.path().filename().c_str());
  }
  return 0;
}

}  // namespace quern::test
