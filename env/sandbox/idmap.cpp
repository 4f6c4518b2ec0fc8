// Which numbers a user namespace knows its users by.
#include "env/sandbox/idmap.hpp"

#include <cerrno>
#include <charconv>
#include <fstream>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace quern::env {
namespace {

struct range {
  unsigned first = 0, count = 0;
};

// "name:first:count" or "uid:first:count" lines; the first that is this user's.
std::optional<range> find_range(const char* file, const std::string& name, uid_t uid) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const auto parts = base::split(line, ':');
    if (parts.size() != 3 || (parts[0] != name && parts[0] != std::to_string(uid))) continue;
    range found;
    std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), found.first);
    std::from_chars(parts[2].data(), parts[2].data() + parts[2].size(), found.count);
    if (found.first > 0 && found.count > 0) return found;
  }
  return std::nullopt;
}

struct search_result {
  std::optional<subordinate_ids> ids;
  std::string why;
};

search_result search() {
  const uid_t uid = geteuid();
  if (uid == 0) return {};
  subordinate_ids found;
  for (const std::string folder : {"/usr/bin/", "/bin/"}) {
    if (access((folder + "newuidmap").c_str(), X_OK) != 0) continue;
    found.newuidmap = folder + "newuidmap";
    found.newgidmap = folder + "newgidmap";
    break;
  }
  if (found.newuidmap.empty()) return {{}, "newuidmap is not installed (package uidmap)"};
  const passwd* entry = getpwuid(uid);
  const std::string name = entry != nullptr ? entry->pw_name : std::to_string(uid);
  const auto uids = find_range("/etc/subuid", name, uid);
  const auto gids = find_range("/etc/subgid", name, uid);
  if (!uids || !gids)
    return {{},
            fmt::format("/etc/subuid or /etc/subgid has no range for {} (usermod --add-subuids "
                        "100000-165535 --add-subgids 100000-165535 {})",
                        name, name)};
  found.first_uid = uids->first;
  found.uid_count = uids->count;
  found.first_gid = gids->first;
  found.gid_count = gids->count;
  return {found, ""};
}

const search_result& searched() {
  static const search_result result = search();
  return result;
}

bool put(const std::string& path, const std::string& text) {
  const base::unique_fd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// newuidmap PID inside outside count …
bool run_helper(const std::string& program, pid_t pid, unsigned own, unsigned inside,
                unsigned outside) {
  std::vector<std::string> words{program, std::to_string(pid)};
  for (const unsigned number : {own, own, 1U, inside, outside, 1U})
    words.push_back(std::to_string(number));
  std::vector<char*> argv;
  for (auto& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  char* no_environment[] = {nullptr};
  pid_t helper = -1;
  if (const int error =
          posix_spawn(&helper, program.c_str(), nullptr, nullptr, argv.data(), no_environment);
      error != 0) {
    errno = error;
    return false;
  }
  int status = 0;
  while (waitpid(helper, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  errno = EPERM;
  return false;
}

}  // namespace

const std::optional<subordinate_ids>& find_subordinate_ids() {
  return searched().ids;
}

const std::string& why_no_subordinate_ids() {
  return searched().why;
}

bool write_id_maps(pid_t pid, bool foreign, uid_t inside) {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (foreign && uid != 0) {
    const auto& ids = find_subordinate_ids();
    if (!ids) {
      errno = EPERM;
      return false;
    }
    return run_helper(ids->newgidmap, pid, gid, inside, ids->first_gid + inside % ids->gid_count) &&
           run_helper(ids->newuidmap, pid, uid, inside, ids->first_uid + inside % ids->uid_count);
  }
  const std::string folder = "/proc/" + std::to_string(pid);
  const auto one = [](unsigned id) { return fmt::format("{0} {0} 1\n", id); };
  if (!foreign) put(folder + "/setgroups", "deny");
  return put(folder + "/gid_map", one(gid) + (foreign ? one(inside) : "")) &&
         put(folder + "/uid_map", one(uid) + (foreign ? one(inside) : ""));
}

}  // namespace quern::env
