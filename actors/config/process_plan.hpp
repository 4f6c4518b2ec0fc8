// A process of a run and how it is started, here or on another host.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "base/subprocess.hpp"

namespace quern::actors {

/// Whom a process introduces itself to, by the number of its start.
enum class introduction : std::uint8_t {
  to_control,  ///< a node of the run
  to_gateway,  ///< an evaluator host
  to_nobody    ///< its exit code alone says how it went
};

/// `name` stands in logs and messages ("generator", "evaluator-0").
struct process_plan {
  std::string name;
  base::subprocess_spec spec;  ///< as on this machine
  std::string host = {};       ///< where it lives; empty: on this machine
  std::string launch = {};     ///< cluster.launch, where it lives elsewhere
  introduction says_hello = introduction::to_control;
};

/// What this machine starts: the process, or the launch command that stands for it. `start` is a
/// number that no other start of the run had; the process says it when it introduces itself, since
/// the number of a process means nothing on another host. One that says no hello is not told it. On
/// another host it ends when its input does, which is open for as long as the launch command is
/// owned. Errors: of launch_command.
base::expected<base::subprocess_spec> started_as(const process_plan& plan, std::int32_t start);

}  // namespace quern::actors
