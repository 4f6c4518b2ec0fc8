// Contents of a module's calls, and what its reference gives on them. Internal to
// env/lanes/pytorch.
#pragma once

#include "base/status.hpp"
#include "env/lanes/pytorch/module_task.hpp"
#include "env/lanes/pytorch/process/python_child.hpp"

namespace quern::env {

/// Draws the inputs of all checked calls, by the task's own content, which must be there.
base::status draw_contents(module_task& to);

/// Runs the reference, described in `process`, on these contents, in its precision and in f64, and
/// sets what a candidate must give and how far from it it may be. Hidden contents on which the
/// reference cannot judge are left out. Errors: invalid_argument: it cannot judge at all; else as
/// reference_error's.
base::status expect(module_task& to, python_child& process);

}  // namespace quern::env
