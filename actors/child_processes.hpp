// The processes of a run that live, or the launch commands of those on other hosts: started,
// watched, signalled, ended.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "actors/config/process_plan.hpp"
#include "base/clock.hpp"
#include "base/status.hpp"
#include "base/subprocess.hpp"

namespace quern::actors {

/// One process by its name and by the number of its start, which no other start has.
struct child_process {
  process_plan plan;
  base::subprocess process;
  std::int32_t start = 0;
  std::thread watcher;
};

/// Of one thread, which lives as long as the processes do (parent-death signal).
class child_processes {
 public:
  /// Is called once for each process that has ended, on a thread of its own.
  using end_news = std::function<void(const std::string& name, std::int32_t start)>;
  explicit child_processes(end_news tell) : tell_(std::move(tell)) {}
  /// As end_all.
  ~child_processes() { end_all(); }
  child_processes(const child_processes&) = delete;
  child_processes& operator=(const child_processes&) = delete;

  /// No process of this name lives. Returns the number of the start. Errors: of started_as, of
  /// base::subprocess::start and of base::start_thread.
  base::expected<std::int32_t> start(const process_plan& plan);
  /// Null: no process of this name lives.
  child_process* find(const std::string& name);
  /// Null: this start was forgotten.
  child_process* find(std::int32_t start);
  /// How a start ended that was told of, which is forgotten. None: it is forgotten already.
  std::optional<base::exit_state> take_end(const std::string& name, std::int32_t start);
  /// Asks all to end, kills after defaults::exit_grace who does not, and forgets them.
  void end_all();

 private:
  end_news tell_;
  std::map<std::string, child_process> children_;
  std::int32_t starts_ = 0;
  base::steady_clock clock_;
};

/// Time that a process and the children it has waited for took of processors, to be compared;
/// empty: not known.
std::string used_time_of(pid_t pid);

/// The last line of a log that says something, shortened; empty: none.
std::string last_words(const std::filesystem::path& log);

}  // namespace quern::actors
