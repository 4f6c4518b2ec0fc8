// A process of a run and how it is started, here or on another host.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "base/subprocess.hpp"

namespace quern::actors {

/// `role` is its name in logs and messages ("generator", "evaluator-0").
struct process_plan {
  std::string role;
  base::subprocess_spec spec;  ///< as on this machine
  std::string host = {};       ///< where it lives; empty: on this machine
  std::string launch = {};     ///< cluster.launch, where it lives elsewhere
  bool evaluator = false;      ///< an evaluator host, which is no node of the run
};

/// What this machine starts: the process, or the launch command that stands for it. `start` is a
/// number that no other start of the run had; the process says it when it introduces itself, since
/// the number of a process means nothing on another host. On another host it ends when its input
/// does, which is open for as long as the launch command is owned. Errors: of launch_command.
base::expected<base::subprocess_spec> started_as(const process_plan& plan, std::int32_t start);

}  // namespace quern::actors
