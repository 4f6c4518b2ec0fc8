// A candidate in host-entry form that wants to write what it runs. `workspace_bytes` tells what it
// got: a bit for each way. Compiled without CUDA.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace {

constexpr std::int64_t memory_when_loaded = 1, memory_of_process = 2, memory_of_thread = 4,
                       own_file = 8, executable_memory = 16, settings_of_process = 32,
                       dumpable_again = 64;

int text() {
  return 7;
}

/// Writes the byte that stands there, which is refused as any other would be.
bool writes_text_through(const char* file) {
  const auto at = reinterpret_cast<std::uintptr_t>(&text);
  unsigned char byte = 0;
  std::memcpy(&byte, reinterpret_cast<const void*>(at), 1);
  const int fd = open(file, O_RDWR);
  const bool done = fd >= 0 && pwrite(fd, &byte, 1, static_cast<off_t>(at)) == 1;
  if (fd >= 0) close(fd);
  return done;
}

/// The memory file that it was loaded from, which the loader maps without copying.
bool writes_own_file() {
  bool done = false;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* item = folder != nullptr ? readdir(folder) : nullptr) {
    char link[300], target[64] = {};
    std::snprintf(link, sizeof link, "/proc/self/fd/%s", item->d_name);
    if (readlink(link, target, sizeof target - 1) <= 0 ||
        std::strncmp(target, "/memfd:kernel", 13) != 0)
      continue;
    char byte = 0;
    const int fd = open(link, O_RDWR);
    done = done || (fd >= 0 && pread(fd, &byte, 1, 0) == 1 && pwrite(fd, &byte, 1, 0) == 1);
    if (fd >= 0) close(fd);
  }
  if (folder != nullptr) closedir(folder);
  return done;
}

bool makes_executable_memory() {
  return mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
              0) != MAP_FAILED;
}

bool changes_a_setting() {
  const int fd = open("/proc/self/coredump_filter", O_WRONLY);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

const bool when_loaded = writes_text_through("/proc/self/mem");

}  // namespace

extern "C" {

void kernel() {}

std::int64_t workspace_bytes() {
  std::int64_t got = when_loaded ? memory_when_loaded : 0;
  const auto note = [&](std::int64_t bit, bool done) { got |= done ? bit : 0; };
  note(dumpable_again, prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
  note(memory_of_process, writes_text_through("/proc/self/mem"));
  note(memory_of_thread, writes_text_through("/proc/thread-self/mem"));
  note(own_file, writes_own_file());
  note(executable_memory, makes_executable_memory());
  note(settings_of_process, changes_a_setting());
  return got;
}

}  // extern "C"
