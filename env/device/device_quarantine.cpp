// Into quarantine and out of it.
#include "env/device/device_quarantine.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/text.hpp"

namespace quern::env {

std::string_view name_of(quarantine_cause cause) {
  switch (cause) {
    case quarantine_cause::memory:
      return "memory";
    case quarantine_cause::context:
      return "context";
    case quarantine_cause::hardware:
      return "hardware";
    case quarantine_cause::failures:
      return "failures";
  }
  return "failures";
}

void device_quarantine::enter(quarantine_cause cause, std::string reason, base::nanoseconds_t now) {
  if (entry_) return;
  entry_ = {cause, base::one_line(reason), now};
  const bool again = pause_ > 0 && worked_ < limits_.trusted_after;
  pause_ = again ? std::min(2 * pause_, limits_.longest_pause) : limits_.first_pause;
  next_test_ = now + pause_;
  worked_ = failures_ = 0;
}

void device_quarantine::failed(const std::string& task, const std::string& detail,
                               base::nanoseconds_t now) {
  if (++failures_ == 1) {
    failed_task_ = task;
    several_tasks_ = false;
  }
  several_tasks_ = several_tasks_ || task != failed_task_;
  if (failures_ < limits_.failures * (several_tasks_ ? 1 : 2)) return;
  enter(quarantine_cause::failures,
        fmt::format("{} evaluations in a row failed here, the last one: {}", failures_, detail),
        now);
}

void device_quarantine::worked() {
  failures_ = 0;
  ++worked_;
}

void device_quarantine::faults(const device_faults& seen, base::nanoseconds_t now) {
  std::vector<std::uint64_t> serious;
  std::copy_if(seen.xids.begin(), seen.xids.end(), std::back_inserter(serious), is_hardware_xid);
  if (!serious.empty())
    enter(quarantine_cause::hardware,
          fmt::format("the driver reports XID {}", fmt::join(serious, ", ")), now);
  if (seen.rows_pending.value_or(false))
    enter(quarantine_cause::hardware,
          "rows of its memory wait to be replaced: the device has to be reset", now);
  if (!seen.uncorrected_ecc) return;
  const std::uint64_t before = ecc_errors_.value_or(*seen.uncorrected_ecc);
  ecc_errors_ = seen.uncorrected_ecc;
  if (*ecc_errors_ > before)
    enter(quarantine_cause::hardware,
          fmt::format("{} more memory errors that could not be corrected", *ecc_errors_ - before),
          now);
}

bool device_quarantine::test_due(base::nanoseconds_t now) const {
  return entry_ && now >= next_test_;
}

void device_quarantine::tested(const std::optional<std::string>& problem, base::nanoseconds_t now) {
  if (!entry_) return;
  if (!problem) {
    entry_.reset();
    return;
  }
  pause_ = std::min(2 * pause_, limits_.longest_pause);
  next_test_ = now + pause_;
}

}  // namespace quern::env
