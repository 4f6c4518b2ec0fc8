// Writes that fail as errors of the write instead of the end of the process. What is ignored stays
// so through exec: base::subprocess and the sandbox (env/sandbox/setup.cpp) give children the
// default back.
#pragma once

namespace quern::base {

/// From now on this process ignores SIGPIPE: `quern train | head -1` goes on without a reader.
void ignore_broken_pipes();

/// From now on this process ignores SIGXFSZ: a write beyond `ulimit -f` fails with EFBIG, and the
/// error names the file. To be called first thing in main.
void ignore_file_size_signal();

/// For a child between fork and exec: both are as the system has them. Only async-signal-safe
/// calls.
void reset_write_signals();

}  // namespace quern::base
