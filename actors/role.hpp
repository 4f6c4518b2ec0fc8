// A role of a run: processes of one purpose, and what follows when one of them ends. RL runs,
// fine-tuning, the making of a corpus and the evaluation of weights are made of roles.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/config/process_plan.hpp"
#include "actors/decide/joint_policy.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// How its processes are started again.
enum class role_restarts : std::uint8_t {
  alone,    ///< each by itself; one that ends too often ends the run (decide/restart_policy)
  aside,    ///< one that ends too often is set aside, the others go on (decide/plural_policy)
  together  ///< all at once, until what they do is done (decide/joint_policy)
};

/// A start of a role.
struct role_start {
  std::int64_t number = 0;   ///< of this role, from 0
  std::int64_t in_vain = 0;  ///< losses since something new was kept, of roles started together
};

/// What roles that are started together go on from.
struct kept_work {
  std::string name = {};  ///< "record", "checkpoint"
  /// Grows with it. Called on the supervisor's thread.
  std::function<std::int64_t()> reached = {};
};

struct role {
  std::string name;  ///< "learner", "evaluator"; its processes have names of their own
  role_restarts restarts = role_restarts::alone;
  /// Its processes, as many as its count, each with program, host, devices and launch command.
  /// Called on the supervisor's thread: once, or for each start of all together. An error ends the
  /// run with its message.
  std::function<base::expected<std::vector<process_plan>>(const role_start&)> plan;
  /// Of roles that are started together.
  joint_limits limits = {};
  kept_work kept = {};
};

/// A role whose processes are planned.
inline role role_of(std::string name, role_restarts restarts, std::vector<process_plan> processes) {
  return {std::move(name), restarts,
          [planned = std::move(processes)](const role_start&) { return planned; }};
}

}  // namespace quern::actors
