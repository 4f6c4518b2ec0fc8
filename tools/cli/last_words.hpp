// What a program says when it cannot go on.
#pragma once

namespace quern::tools {

/// From now on an exception that nobody caught, of any thread, and an abort() of a library end the
/// process with exit code 1. A sentence on standard error says why; it begins with `program`, which
/// must live as long as the process. Nothing is unwound: a frame may hold what waits for ever. Call
/// it before the first thread.
void end_with_last_words(const char* program);

}  // namespace quern::tools
