// Somebody else on this host: sends signals to processes that the test has started.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.hpp"

namespace quern::test {

/// Whether a process of this host is over with all its threads, its sockets closed. One that is
/// ending loses its command line well before that.
inline bool has_ended(pid_t pid) {
  const base::unique_fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return errno == ESRCH;
  pollfd end{process.get(), POLLIN, 0};
  return ::poll(&end, 1, 0) == 1;
}

/// Living processes that `parent` has started, those of its children too where `all`, whose command
/// line has `word`, and who started each.
inline std::map<pid_t, pid_t> descendants(pid_t parent, const std::string& word, bool all) {
  struct process {
    pid_t parent = 0;
    std::filesystem::path folder;
  };
  std::map<pid_t, process> living;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    // Behind the name in parentheses: state, parent.
    const std::string stat = base::read_file(entry.path() / "stat").value_or("");
    const auto end = stat.rfind(')');
    if (end == std::string::npos || end + 4 >= stat.size() || stat[end + 2] == 'Z') continue;
    const auto above = static_cast<pid_t>(std::strtol(stat.c_str() + end + 4, nullptr, 10));
    living[std::stoi(name)] = {above, entry.path()};
  }
  std::map<pid_t, pid_t> found;
  for (const auto& [pid, what] : living) {
    bool below = what.parent == parent;
    for (auto at = living.find(what.parent); all && !below && at != living.end();
         at = living.find(at->second.parent))
      below = at->second.parent == parent;
    if (below &&
        base::read_file(what.folder / "cmdline").value_or("").find(word) != std::string::npos)
      found[pid] = what.parent;
  }
  return found;
}

/// Sends `signal` to processes below this one whose command line has `word`, as they are seen. One
/// that was started by another such process is passed over: it is a copy of that process which has
/// not become its own program yet, and ends with it. Ends with this object.
class meddler {
 public:
  /// `most`: how many of them, at most. `beside`: only those that another such process was before.
  meddler(std::string word, int signal, int most, bool beside = false)
      : word_(std::move(word)), signal_(signal), most_(most), beside_(beside), thread_([this] {
          while (!done_ && hits_ < most_)
            look();
        }) {}
  ~meddler() {
    done_ = true;
    thread_.join();
  }
  meddler(const meddler&) = delete;
  meddler& operator=(const meddler&) = delete;

  [[nodiscard]] int hits() const { return hits_; }

 private:
  void look() {
    const auto now = descendants(getpid(), word_, true);
    for (const auto& [pid, parent] : now) {
      const bool copy = seen_.contains(parent) || now.contains(parent);
      if (!seen_.insert(pid).second || copy || hits_ == most_ || (beside_ && now.size() < 2))
        continue;
      if (::kill(pid, signal_) == 0) ++hits_;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::string word_;
  int signal_, most_;
  bool beside_;
  std::set<pid_t> seen_;
  std::atomic<bool> done_{false};
  std::atomic<int> hits_{0};
  std::thread thread_;
};

}  // namespace quern::test
