// Compilations in advance, and counting of what sandboxed children leave behind.
#include "sandbox_fixture.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

namespace quern::test {

namespace fs = std::filesystem;

void compile_all(env::cpp_compiler& compiler,
                 const std::vector<env::cpp_compile_request>& requests) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < requests.size();)
      (void)compiler.compile(requests[i]);
  };
  std::thread other(work);
  work();
  other.join();
}

std::set<std::string> control_groups_left() {
  std::set<std::string> found;
  const std::string mine = "quern-" + std::to_string(getpid()) + "-";
  const auto place = env::probe_host().cgroups;
  for (const fs::path& folder : {place.memory, place.pids}) {
    std::error_code error;
    for (const auto& item : fs::directory_iterator(folder, error))
      if (item.path().filename().string().starts_with(mine)) found.insert(item.path().string());
  }
  return found;
}

namespace {

int parent_of(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("PPid:")) return std::stoi(line.substr(5));
  return 0;
}

// Another test may be running the same program.
bool descends_from_this_process(int pid) {
  while (pid > 1 && pid != getpid())
    pid = parent_of(pid);
  return pid == getpid();
}

}  // namespace

std::set<std::string> deeds_still_running() {
  std::set<std::string> found;
  std::error_code error;
  for (const auto& item : fs::directory_iterator("/proc", error)) {
    const auto program = fs::read_symlink(item.path() / "exe", error);
    if (!error && program == deed_program() &&
        descends_from_this_process(std::stoi(item.path().filename().string())))
      found.insert(item.path().string());
  }
  return found;
}

}  // namespace quern::test
