// Linux keeps niceness by thread.
#include "base/priority.hpp"

#include <charconv>
#include <filesystem>
#include <string>

#include <sys/resource.h>

namespace quern::base {

void set_niceness(int nice) {
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", code)) {
    const std::string name = entry.path().filename().string();
    id_t thread = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), thread).ec == std::errc())
      setpriority(PRIO_PROCESS, thread, nice);
  }
}

}  // namespace quern::base
