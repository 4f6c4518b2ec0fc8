// Role `reference` of program quern-torch: a warm, single-threaded LibTorch process that forks a
// child for every task.
#pragma once

namespace quern::env {

/// Serves fork requests on descriptor 3 (env/runner/reference_service.hpp) until the evaluator
/// closes it; the exit status of the process. Says hello with LibTorch's version when it is warm.
/// Must be called before any thread exists: children are made by fork.
int reference_main();

}  // namespace quern::env
