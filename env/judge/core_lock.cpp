// Which core measures.
#include "env/judge/core_lock.hpp"

#include <algorithm>
#include <utility>

#include <sys/resource.h>

#include "env/judge/host_lock.hpp"

namespace quern::env {
namespace {

/// About 28 times the weight of a process of nice 0.
constexpr int first_nice = -15;
constexpr double longest_choice_s = 60;

std::string lock_name(int core, const char* what) {
  return fmt::format("core-{}.{}", core, what);
}

/// "0-3, 6".
std::string as_ranges(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t end = i + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1)
      ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(cores[i]);
    if (end - i > 1) text += "-" + std::to_string(cores[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace

base::expected<std::vector<int>> allowed_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return base::fail_errno("sched_getaffinity");
  std::vector<int> cores;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &allowed)) cores.push_back(c);
  return cores;
}

base::status check_core(std::int64_t core) {
  if (core == -1) return {};
  QUERN_TRY(const auto cores, allowed_cores());
  if (std::find(cores.begin(), cores.end(), core) != cores.end()) return {};
  return base::fail(base::errc::invalid_argument,
                    "core {} is not one that this process may run on ({}); -1 has one chosen", core,
                    as_ranges(cores));
}

bool pin_to(int process, int core) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(static_cast<std::size_t>(core), &only);
  return sched_setaffinity(process, sizeof only, &only) == 0;
}

std::size_t spare_cores(std::size_t allowed, std::size_t free, std::size_t wanted) {
  constexpr std::size_t least_allowed = 8;
  return allowed >= least_allowed && free >= allowed / 2 + wanted ? wanted : 0;
}

base::expected<core_choice> core_choice::choose(int core, std::size_t spare) {
  QUERN_CHECK(check_core(core));
  core_choice choice;
  // One after the other: who looks for spare cores has all of them for a moment.
  QUERN_TRY(auto choosing, open_host_lock("cores.choice"));
  if (!wait_for_host_lock(choosing, longest_choice_s))
    return base::fail(base::errc::timeout,
                      "another evaluator of this host has been choosing its core for {} s: end it",
                      longest_choice_s);
  if (core >= 0) {
    QUERN_TRY(auto owner, open_host_lock(lock_name(core, "owner")));
    try_host_lock(owner);
    choice.own(core, std::move(owner));
    give_back_host_lock(choosing);
    return choice;
  }
  QUERN_TRY(const auto cores, allowed_cores());
  for (auto c = cores.rbegin(); c != cores.rend() && choice.cores_.empty(); ++c) {
    QUERN_TRY(auto owner, open_host_lock(lock_name(*c, "owner")));
    if (try_host_lock(owner)) choice.own(*c, std::move(owner));
  }
  if (choice.cores_.empty())
    choice.own(cores.back(), {});
  else
    QUERN_CHECK(choice.own_spare(cores, spare));
  give_back_host_lock(choosing);
  return choice;
}

void core_choice::own(int core, base::unique_fd owner) {
  cores_.push_back(core);
  owners_.push_back(std::move(owner));
  marks_.emplace_back(core);
}

base::status core_choice::own_spare(const std::vector<int>& allowed, std::size_t spare) {
  if (spare == 0) return {};
  std::vector<std::pair<int, base::unique_fd>> free;
  for (auto c = allowed.rbegin(); c != allowed.rend(); ++c) {
    QUERN_TRY(auto owner, open_host_lock(lock_name(*c, "owner")));
    if (try_host_lock(owner)) free.emplace_back(*c, std::move(owner));
  }
  spare = spare_cores(allowed.size(), free.size(), spare);
  for (auto& [core, owner] : free)
    if (cores_.size() <= spare)
      own(core, std::move(owner));
    else
      give_back_host_lock(owner);
  return {};
}

void come_first(int pid) {
  setpriority(PRIO_PROCESS, static_cast<id_t>(pid), first_nice);
}

coming_first::coming_first(int pid)
    : pid_(pid), nice_before_(getpriority(PRIO_PROCESS, static_cast<id_t>(pid))) {
  come_first(pid);
}

coming_first::~coming_first() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(pid_), nice_before_);
}

base::expected<core_lease> core_lease::take(int core, double seconds) {
  core_lease lease;
  QUERN_TRY(lease.busy_, open_host_lock(lock_name(core, "busy")));
  if (!wait_for_host_lock(lease.busy_, seconds))
    return base::fail(base::errc::timeout,
                      "core {} was used by other evaluators for {} s; give them different cores",
                      core, seconds);
  sched_getaffinity(0, sizeof lease.before_, &lease.before_);
  lease.pinned_ = pin_to(0, core);
  lease.nice_before_ = getpriority(PRIO_PROCESS, 0);
  come_first(0);
  lease.taken_ = true;
  return lease;
}

core_lease::core_lease(core_lease&& other) noexcept
    : busy_(std::move(other.busy_)),
      before_(other.before_),
      taken_(std::exchange(other.taken_, false)),
      pinned_(other.pinned_),
      nice_before_(other.nice_before_) {}

core_lease::~core_lease() {
  give_back_host_lock(busy_);
  if (!taken_) return;
  if (pinned_) sched_setaffinity(0, sizeof before_, &before_);
  setpriority(PRIO_PROCESS, 0, nice_before_);
}

}  // namespace quern::env
