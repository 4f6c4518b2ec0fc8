// NVML asked at the right moments.
#include "env/device/device_watch.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include <fmt/core.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace quern::env {
namespace {

/// What looks at clocks may cost a measurement, which lasts 100 ms or more.
constexpr base::nanoseconds_t most_looking_ns = 5'000'000;
/// Parents of a process that are looked at.
constexpr std::size_t most_generations = 64;

struct process_entry {
  std::uint32_t parent = 0;
  std::string name;
};

/// Empty: there is no such process, or it is not told.
std::optional<process_entry> entry_of(std::uint32_t pid) {
  const auto text = base::read_file(fmt::format("/proc/{}/stat", pid), 1U << 12U);
  if (!text) return std::nullopt;
  // "PID (NAME) S PARENT ...", and a name may have parentheses.
  const std::size_t name_begin = text->find('('), name_end = text->rfind(')');
  constexpr std::size_t to_parent = 4;
  if (name_begin == std::string::npos || name_end == std::string::npos ||
      name_end + to_parent >= text->size())
    return std::nullopt;
  process_entry entry;
  entry.name = text->substr(name_begin + 1, name_end - name_begin - 1);
  const char* const at = text->data() + name_end + to_parent;
  if (std::from_chars(at, text->data() + text->size(), entry.parent).ec != std::errc())
    return std::nullopt;
  return entry;
}

/// The processes that one descends from, itself first. Empty: there is no such process, or it is
/// not told.
std::vector<std::pair<std::uint32_t, process_entry>> lineage(std::uint32_t pid) {
  std::vector<std::pair<std::uint32_t, process_entry>> found;
  while (pid > 0 && found.size() < most_generations) {
    auto entry = entry_of(pid);
    if (!entry) break;
    const std::uint32_t parent = entry->parent;
    found.emplace_back(pid, std::move(*entry));
    pid = parent;
  }
  return found;
}

/// Those of Quern among them that are not this process: who started its run.
std::set<std::uint32_t> starters_of_this() {
  std::set<std::uint32_t> starters;
  for (const auto& [pid, entry] : lineage(static_cast<std::uint32_t>(::getpid())))
    if (entry.name.starts_with("quern") && pid != static_cast<std::uint32_t>(::getpid()))
      starters.insert(pid);
  return starters;
}

}  // namespace

bool is_own_process(std::uint32_t pid) {
  const auto own = static_cast<std::uint32_t>(::getpid());
  // No further than to this one: a look reads this for each process of the device.
  for (std::size_t i = 0; i < most_generations && pid > 0; ++i) {
    if (pid == own) return true;
    const auto entry = entry_of(pid);
    if (!entry) return false;
    pid = entry->parent;
  }
  return false;
}

std::string other_program(std::uint32_t pid) {
  constexpr std::size_t most_named = 6;
  const auto chain = lineage(pid);
  const auto starters = starters_of_this();
  std::string text;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    // A learner or generator of this evaluator's run takes turns with it.
    if (starters.contains(chain[i].first)) return {};
    if (i < most_named)
      fmt::format_to(std::back_inserter(text), "{}{} ({})", i == 0 ? "" : " < ", chain[i].first,
                     base::one_line(chain[i].second.name));
  }
  return text.empty() ? fmt::format("{} (not shown in /proc)", pid) : text;
}

device_watch::device_watch(const std::string& bus_id, const std::string& library)
    : bus_id_(bus_id) {
  auto opened = device_health::open(bus_id, library);
  if (opened) {
    health_ = std::move(*opened);
  } else {
    problem_ = opened.error().message;
  }
}

std::optional<device_health_sample> device_watch::sample(bool& knows_own, device_quarantine* device,
                                                         base::nanoseconds_t now) {
  knows_own = false;
  if (!health_) return std::nullopt;
  std::vector<std::uint32_t> others;
  std::set<std::uint32_t> unknown, unknown_before;
  bool own_is_there = false;
  const auto is_own = [&](std::uint32_t pid) {
    if (is_own_process(pid)) {
      own_is_there = true;
      return true;
    }
    if (!entry_of(pid)) {
      unknown.insert(pid);
      if (!unknown_before.contains(pid)) return true;
    }
    others.push_back(pid);
    return false;
  };
  auto seen = health_->sample(is_own);
  if (seen && own_is_there && !unknown.empty()) {
    // They ended after they were listed, or /proc does not show them. The former are not listed
    // again.
    others.clear();
    unknown_before = std::exchange(unknown, {});
    seen = health_->sample(is_own);
  }
  if (!seen) {
    if (seen.error().code == base::errc::io && device != nullptr)
      device->enter(quarantine_cause::hardware, seen.error().message, now);
    return std::nullopt;
  }
  // This process has a context there: where it is not in the list, ids are those of another
  // namespace, and nobody can be told from anybody.
  knows_own = seen->processes && own_is_there;
  if (knows_own) name_others(others);
  return *seen;
}

void device_watch::name_others(const std::vector<std::uint32_t>& pids) {
  for (const std::uint32_t pid : pids) {
    if (other_programs_.size() == most_named || !looked_at_.insert(pid).second) continue;
    std::string text = other_program(pid);
    if (text.empty()) continue;
    base::log_warn("evaluator",
                   "another program has a context on GPU {}, and times vary while it computes "
                   "there: {}. Give it another GPU",
                   bus_id_, text);
    other_programs_.push_back(std::move(text));
    if (other_programs_.size() == most_named)
      base::log_warn("evaluator", "further programs on GPU {} are not named", bus_id_);
  }
}

std::optional<std::uint64_t> device_watch::unaccounted_bytes() {
  bool knows_own = false;
  const auto seen = sample(knows_own, nullptr, 0);
  if (!seen || !knows_own || seen->memory_total_bytes == 0) return std::nullopt;
  return seen->memory_used_bytes - std::min(seen->memory_used_bytes, seen->process_bytes);
}

std::optional<device_health_sample> device_watch::sample() {
  bool ignored = false;
  return sample(ignored, nullptr, 0);
}

void device_watch::look_for_faults(device_quarantine& device, base::nanoseconds_t now) {
  if (!health_) return;
  if (auto faults = health_->faults()) {
    device.faults(*faults, now);
  } else if (faults.error().code == base::errc::io) {
    device.enter(quarantine_cause::hardware, faults.error().message, now);
  }
}

void device_watch::begin(condition_watch& seen, device_quarantine& device,
                         base::nanoseconds_t now) {
  bool knows_own = false;
  looking_ns_ = 0;
  if (auto now_seen = sample(knows_own, &device, now)) {
    seen.begin(*now_seen, knows_own);
  } else {
    seen.begin();
  }
}

void device_watch::window(condition_watch& seen, bool candidate) {
  if (!health_ || looking_ns_ > most_looking_ns) return;
  const base::steady_clock clock;
  const auto start = clock.now_ns();
  if (auto clocks = health_->clocks()) seen.window(candidate, *clocks);
  looking_ns_ += clock.now_ns() - start;
}

void device_watch::end(condition_watch& seen, device_quarantine& device, base::nanoseconds_t now) {
  bool knows_own = false;
  if (auto now_seen = sample(knows_own, &device, now)) seen.end(*now_seen, knows_own);
  look_for_faults(device, now);
}

}  // namespace quern::env
