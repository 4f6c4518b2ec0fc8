// A core whose evaluations fail one after another: left alone, and tried again with everything made
// anew.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "env/device/device_quarantine.hpp"
#include "env/judge/judge.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// A self-test takes seconds, and what ails a core's host is over sooner than what ails a GPU: a
/// folder that was full, memory that was short.
inline constexpr device_quarantine::limits core_quarantine{.first_pause = 5'000'000'000,
                                                           .longest_pause = 300'000'000'000};

/// The quarantine of one core and what people are told of it. One thread.
class core_care {
 public:
  core_care() = default;
  core_care(int core, const device_quarantine::limits& limits) : core_(core), quarantine_(limits) {}

  /// What an evaluation that used this host's parts says about them.
  void look_after(const verdict& v);
  [[nodiscard]] std::optional<device_trouble> trouble() const;
  /// Calls `self_test` if it is time for one: what is wrong here; none: nothing.
  void recover(const std::function<std::optional<std::string>()>& self_test);

 private:
  int core_ = -1;
  base::steady_clock clock_;
  device_quarantine quarantine_{};
};

}  // namespace quern::env
