#include "tools/benchmarks/bench_gpu_leftovers.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "env/device/device_health.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_files = 200000;
/// What an evaluator starts, and what compilers start.
constexpr std::array<std::string_view, 13> names_of_ours = {
    "quern",   "nvcc", "cicc", "ptxas", "cudafe", "fatbinary", "nvlink",
    "cc1plus", "g++",  "gcc",  "as",    "ld",     "collect2"};

struct raw_process {
  int parent = 0;
  std::string name, start;
  bool is_zombie = false;
};

std::optional<raw_process> read_process(const fs::path& folder) {
  const auto text = base::read_file(folder / "stat", 4096);
  if (!text) return std::nullopt;
  // "pid (name) state parent ...": the name may hold anything, so from its last bracket on.
  const auto open = text->find('('), close = text->rfind(')');
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  const auto fields = base::split(std::string_view(*text).substr(close + 2), ' ');
  if (fields.size() < 20) return std::nullopt;
  return raw_process{std::atoi(std::string(fields[1]).c_str()),
                     text->substr(open + 1, close - open - 1), std::string(fields[19]),
                     fields[0] == "Z"};
}

bool has_name_of_ours(const std::string& name) {
  return std::any_of(names_of_ours.begin(), names_of_ours.end(), [&](std::string_view ours) {
    return ours == "as" || ours == "ld" ? name == ours : name.starts_with(ours);
  });
}

/// Programs that start evaluators.
bool evaluates(const std::string& name) {
  return name == "bench_gpu" || name == "bench_pytorch" || name == "quern";
}

std::map<int, host_process> look_at_processes() {
  std::map<int, raw_process> raw;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    if (auto one = read_process(entry.path())) raw[pid] = std::move(*one);
  }
  std::map<int, host_process> found;
  for (const auto& [pid, one] : raw) {
    host_process p{one.name, one.start, ""};
    p.is_zombie = one.is_zombie;
    int steps = 0;
    for (auto at = raw.find(one.parent); at != raw.end() && steps < 64;
         at = raw.find(at->second.parent), ++steps) {
      p.parents += " < " + at->second.name;
      const bool self = at->first == static_cast<int>(::getpid());
      p.ours = p.ours || self;
      p.others = p.others || (!self && evaluates(at->second.name));
    }
    found[pid] = std::move(p);
  }
  return found;
}

std::set<std::string> look_at_files() {
  std::set<std::string> folders{"/tmp", "/var/tmp", "/dev/shm"}, files;
  for (const char* name : {"TMPDIR", "XDG_RUNTIME_DIR"})
    if (const char* folder = std::getenv(name); folder != nullptr && *folder != 0)
      folders.insert(folder);
  for (const auto& folder : folders) {
    std::error_code error;
    fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied,
                                        error);
    for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
      files.insert(at->path().string());
      if (files.size() >= most_files) return files;
    }
  }
  return files;
}

}  // namespace

device_use look_at_device(const std::string& bus_id) {
  if (bus_id.empty()) return {};
  const auto health = env::device_health::open(bus_id);
  if (!health) return {};
  const auto sample = health->sample();
  if (!sample) return {};
  device_use use;
  if (sample->memory_total_bytes > 0) use.bytes = sample->memory_used_bytes;
  use.processes = sample->processes;
  return use;
}

std::map<std::string, int> look_at_descriptors() {
  std::map<std::string, int> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", error)) {
    std::error_code gone;
    const auto target = fs::read_symlink(entry.path(), gone).string();
    // "socket:[123]" is another one each time.
    if (!gone) ++found[target.substr(0, target.find(":["))];
  }
  return found;
}

host_snapshot look_at_host(const std::string& bus_id) {
  return {look_at_processes(), look_at_descriptors(), look_at_files(), look_at_device(bus_id)};
}

host_leftovers left_behind(const host_snapshot& before, const host_snapshot& after) {
  host_leftovers left;
  for (const auto& [pid, one] : after.processes) {
    const auto known = before.processes.find(pid);
    if (known != before.processes.end() && known->second.start == one.start) continue;
    const std::string text =
        fmt::format("{} {}{}{}", pid, one.name, one.is_zombie ? " (zombie)" : "", one.parents);
    (one.ours || (has_name_of_ours(one.name) && !one.others) ? left.processes
                                                             : left.foreign_processes)
        .push_back(text);
  }
  std::set_difference(after.files.begin(), after.files.end(), before.files.begin(),
                      before.files.end(), std::back_inserter(left.files));
  for (const auto& [what, now] : after.descriptors) {
    const auto known = before.descriptors.find(what);
    const int more = now - (known == before.descriptors.end() ? 0 : known->second);
    if (more > 0) left.descriptors.push_back(fmt::format("{}: {} more", what, more));
  }
  if (before.device.bytes && after.device.bytes)
    left.device_bytes = static_cast<std::int64_t>(*after.device.bytes) -
                        static_cast<std::int64_t>(*before.device.bytes);
  return left;
}

}  // namespace quern::tools
