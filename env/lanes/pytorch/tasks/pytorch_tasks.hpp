// The forms in which lane `pytorch` reads tasks of others.
#pragma once

#include "env/task/task_source.hpp"

namespace quern::env {

/// KernelBench's names, Python modules, folders of them, and JSON records. For lanes whose body is
/// pytorch_format.
extern const task_source pytorch_tasks;

}  // namespace quern::env
