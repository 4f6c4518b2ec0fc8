// A process that ends with its standard input: so that one on another host does not outlive the
// launch command which it was started by, whatever became of that.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "base/status.hpp"

namespace quern::base {

/// The first line of standard input, without its end; reads not a byte beyond it. Errors: io, when
/// the input ends before; invalid_argument, beyond 4 KiB.
expected<std::string> read_input_line();

/// From now on the end of standard input is a line in the log and SIGTERM for this process and,
/// `grace` later, SIGKILL. A thread of its own reads it and lives as long as the process. Call it
/// once.
void end_with_input(nanoseconds_t grace);

}  // namespace quern::base
