// A control group for one child, version 1 or 2.
#include "env/sandbox/cgroup.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

std::string slurp(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// What Linux asks of a group at once, when it is nearly full, is smaller.
constexpr std::int64_t largest_charge = 256 << 10;

// Of a file that is one number; 0 where it is not there.
std::int64_t number_in(const fs::path& file) {
  std::istringstream text(slurp(file));
  std::int64_t value = 0;
  text >> value;
  return value;
}

// Of a file of lines "name number"; 0 where the name is not there.
std::int64_t number_in(const fs::path& file, std::string_view name) {
  std::istringstream lines(slurp(file));
  std::string key;
  std::int64_t value = 0;
  while (lines >> key >> value)
    if (key == name) return value;
  return 0;
}

bool put(const fs::path& file, const std::string& value) {
  std::ofstream out(file);
  out << value;
  out.close();
  return !out.fail();
}

// Field 22 of /proc/PID/stat: start time, so that a pid used again is not mistaken for its owner.
std::string start_time_of(const std::string& pid) {
  const std::string stat = slurp("/proc/" + pid + "/stat");
  const auto close = stat.rfind(')');
  if (close == std::string::npos) return "";
  std::istringstream rest(stat.substr(close + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i)
    rest >> field;
  return field;
}

const std::string& own_prefix() {
  static const std::string prefix = [] {
    const std::string pid = std::to_string(getpid());
    return "quern-" + pid + "-" + start_time_of(pid) + "-";
  }();
  return prefix;
}

// Own path of a hierarchy in /proc/self/cgroup: "4:memory:/a/b", version 2 as "0::/a/b".
std::string own_path(std::string_view controller) {
  std::istringstream lines(slurp("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool found = controller.empty() ? controllers == ",,"
                                          : controllers.find("," + std::string(controller) + ",") !=
                                                std::string::npos;
    if (found) return line.substr(second + 1);
  }
  return "";
}

// Where the hierarchy is mounted: mount point and which of its folders appears there.
struct hierarchy {
  fs::path mounted_at;
  std::string root;
};

hierarchy find_hierarchy(std::string_view type, std::string_view controller) {
  std::istringstream lines(slurp("/proc/self/mountinfo"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, root, point, item, kind, source, options;
    fields >> id >> parent >> device >> root >> point;
    while (fields >> item && item != "-") {
    }
    fields >> kind >> source >> options;
    if (kind != type) continue;
    if (!controller.empty() &&
        ("," + options + ",").find("," + std::string(controller) + ",") == std::string::npos)
      continue;
    return {point, root};
  }
  return {};
}

fs::path own_folder(std::string_view type, std::string_view controller) {
  const hierarchy where = find_hierarchy(type, controller);
  const std::string path = own_path(controller);
  if (where.mounted_at.empty() || path.empty()) return {};
  std::string_view below = path;
  if (where.root != "/" && below.starts_with(where.root)) below.remove_prefix(where.root.size());
  while (below.starts_with('/'))
    below.remove_prefix(1);
  std::error_code ignored;
  const fs::path own = where.mounted_at / below;
  // A path from outside our control group namespace is not there: the top is then the best we see.
  return fs::is_directory(own, ignored) ? own : where.mounted_at;
}

bool works(const cgroup_place& place) {
  auto leaf = cgroup_leaf::create(place, 64 << 20, 4);
  return leaf.has_value();
}

bool has_word(const std::string& text, std::string_view word) {
  std::istringstream words(text);
  for (std::string item; words >> item;)
    if (item == word) return true;
  return false;
}

}  // namespace

cgroup_place find_cgroup_place(std::string& why) {
  // Version 2: a group's children have a controller only if the group hands it down, and a group
  // that holds processes cannot start to; so look upwards for one that already does.
  const hierarchy unified = find_hierarchy("cgroup2", "");
  if (!unified.mounted_at.empty() &&
      has_word(slurp(unified.mounted_at / "cgroup.controllers"), "memory")) {
    for (fs::path folder = own_folder("cgroup2", "");; folder = folder.parent_path()) {
      const fs::path control = folder / "cgroup.subtree_control";
      if (!has_word(slurp(control), "memory") || !has_word(slurp(control), "pids"))
        put(control, "+memory +pids");
      const cgroup_place place{2, folder, folder};
      const std::string handed = slurp(control);
      if (has_word(handed, "memory") && has_word(handed, "pids") && works(place)) return place;
      if (folder == unified.mounted_at || folder == folder.parent_path()) break;
    }
    why = "no control group of version 2 above this process may be used";
    return {};
  }
  const cgroup_place place{1, own_folder("cgroup", "memory"), own_folder("cgroup", "pids")};
  if (place.memory.empty() || place.pids.empty()) {
    why = "the memory and pids controllers are not mounted";
    return {};
  }
  if (!works(place)) {
    why = fmt::format("{} is not writable", place.memory.string());
    return {};
  }
  return place;
}

void sweep_cgroups(const cgroup_place& place) {
  for (const fs::path& folder : {place.memory, place.pids}) {
    if (folder.empty()) continue;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      const auto parts = base::split(name, '-');
      if (parts.size() != 4 || parts[0] != "quern") continue;
      if (start_time_of(std::string(parts[1])) != parts[2]) rmdir(it->path().c_str());
    }
    if (place.version == 2) break;
  }
}

base::expected<cgroup_leaf> cgroup_leaf::create(const cgroup_place& place,
                                                std::int64_t memory_bytes, int processes) {
  static std::atomic<std::uint64_t> counter{0};
  const std::string name = own_prefix() + std::to_string(counter.fetch_add(1));
  cgroup_leaf leaf(cgroup_place{place.version, place.memory / name, place.pids / name});
  for (const fs::path& folder : {leaf.folders_.memory, leaf.folders_.pids})
    if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
      return base::fail_errno(fmt::format("making control group {}", folder.string()));
  const bool v2 = place.version == 2;
  if (memory_bytes > 0) {
    const std::string bytes = std::to_string(memory_bytes);
    const fs::path& memory = leaf.folders_.memory;
    if (!put(memory / (v2 ? "memory.max" : "memory.limit_in_bytes"), bytes))
      return base::fail(base::errc::io, "cannot limit memory in {}", memory.string());
    // Without swap accounting these do not exist; then there is nothing to limit.
    put(memory / (v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes"), v2 ? "0" : bytes);
    if (v2) put(memory / "memory.oom.group", "1");
  }
  if (processes > 0 && !put(leaf.folders_.pids / "pids.max", std::to_string(processes)))
    return base::fail(base::errc::io, "cannot limit processes in {}", leaf.folders_.pids.string());
  return leaf;
}

cgroup_leaf::~cgroup_leaf() {
  remove();
}

cgroup_leaf::cgroup_leaf(cgroup_leaf&& other) noexcept
    : folders_(std::exchange(other.folders_, cgroup_place{})) {}

cgroup_leaf& cgroup_leaf::operator=(cgroup_leaf&& other) noexcept {
  if (this != &other) {
    remove();
    folders_ = std::exchange(other.folders_, cgroup_place{});
  }
  return *this;
}

base::status cgroup_leaf::add(int pid) const {
  for (const fs::path& folder : {folders_.memory, folders_.pids}) {
    if (!put(folder / "cgroup.procs", std::to_string(pid)))
      return base::fail_errno(fmt::format("moving a process into {}", folder.string()));
    if (folders_.version == 2) break;
  }
  return {};
}

bool cgroup_leaf::reached_limit() const {
  const fs::path& memory = folders_.memory;
  if (folders_.version == 2) return number_in(memory / "memory.events", "oom") > 0;
  // Not failcnt: Linux 6.18 counts no failures of memory with swap, which has the same limit here.
  const auto was_full = [&](const std::string& what) {
    const std::int64_t limit = number_in(memory / (what + ".limit_in_bytes"));
    return limit > 0 &&
           number_in(memory / (what + ".max_usage_in_bytes")) + largest_charge >= limit;
  };
  return was_full("memory") || was_full("memory.memsw");
}

bool cgroup_leaf::had_oom_kill() const {
  const bool v2 = folders_.version == 2;
  const fs::path events = folders_.memory / (v2 ? "memory.events" : "memory.oom_control");
  return number_in(events, "oom_kill") > 0 && reached_limit();
}

void cgroup_leaf::kill() const {
  if (folders_.version == 2) put(folders_.memory / "cgroup.kill", "1");
}

bool cgroup_leaf::remove() {
  if (folders_.version == 0) return true;
  bool gone = true;
  for (const fs::path& folder : {folders_.memory, folders_.pids}) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    int rc = 0;
    while ((rc = rmdir(folder.c_str())) != 0 && errno == EBUSY &&
           std::chrono::steady_clock::now() < give_up)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    gone = gone && (rc == 0 || errno == ENOENT);
  }
  if (gone) folders_ = {};
  return gone;
}

}  // namespace quern::env
