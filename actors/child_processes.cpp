#include "actors/child_processes.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include "actors/defaults.hpp"
#include "base/thread.hpp"

namespace quern::actors {

base::expected<std::int32_t> child_processes::start(const process_plan& plan) {
  const std::int32_t start = ++starts_;
  QUERN_TRY(const auto spec, started_as(plan, start));
  QUERN_TRY(auto child, base::subprocess::start(spec));
  const int fd = child.pid_fd();
  QUERN_TRY(auto watcher, base::start_thread("watching " + plan.name,
                                             [fd, start, tell = tell_, name = plan.name] {
                                               pollfd watched{fd, POLLIN, 0};
                                               while (::poll(&watched, 1, -1) < 0) {
                                               }
                                               tell(name, start);
                                             }));
  children_.emplace(plan.name, child_process{plan, std::move(child), start, std::move(watcher)});
  return start;
}

child_process* child_processes::find(const std::string& name) {
  const auto found = children_.find(name);
  return found == children_.end() ? nullptr : &found->second;
}

child_process* child_processes::find(std::int32_t start) {
  const auto found = std::find_if(children_.begin(), children_.end(),
                                  [&](const auto& one) { return one.second.start == start; });
  return found == children_.end() ? nullptr : &found->second;
}

std::optional<base::exit_state> child_processes::take_end(const std::string& name,
                                                          std::int32_t start) {
  const auto found = children_.find(name);
  if (found == children_.end() || found->second.start != start) return std::nullopt;
  const auto how = found->second.process.poll();
  found->second.watcher.join();
  children_.erase(found);
  return how.value_or(base::exit_state{});
}

void child_processes::end_all() {
  // A launch command ends when the process has that it stands for.
  for (auto& [name, child] : children_)
    child.plan.host.empty() ? child.process.send_signal(SIGTERM) : child.process.close_input();
  const base::nanoseconds_t deadline =
      clock_.now_ns() + std::chrono::nanoseconds(defaults::exit_grace).count();
  for (auto& [name, child] : children_) {
    child.process.wait(std::max<base::nanoseconds_t>(deadline - clock_.now_ns(), 0));
    child.process.send_signal(SIGKILL);
    child.process.wait(base::operator""_s(5));
    if (child.watcher.joinable()) child.watcher.join();
  }
  children_.clear();
}

std::string used_time_of(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(in, text);
  // The name, in parentheses, may hold anything.
  const auto name_end = text.rfind(')');
  if (name_end == text.npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  std::string all;
  std::string field;
  // proc(5): from the state, which is field 3; utime to cstime are 14 to 17.
  for (int number = 3; number <= 17 && fields >> field; ++number)
    if (number >= 14) all += field + ' ';
  return all;
}

std::string last_words(const std::filesystem::path& log) {
  constexpr std::streamoff tail = 4096;
  constexpr std::size_t most = 500;
  std::ifstream in(log, std::ios::binary | std::ios::ate);
  if (!in) return {};
  in.seekg(std::max<std::streamoff>(0, static_cast<std::streamoff>(in.tellg()) - tail));
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (line.find_first_not_of(" \t\r") != line.npos) last = line;
  return last.size() <= most ? last : last.substr(0, most) + " ...";
}

}  // namespace quern::actors
