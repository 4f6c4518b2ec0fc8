// `quern-runner nvrtc LIBRARY`: CUDA's run-time compiler in a process of its own.
#pragma once

namespace quern::env::runner {

/// Compiles the one request of nvrtc_request_fd with `library` (path of libnvrtc.so) and returns
/// the exit status, an nvrtc_end. The source is the candidate's, so the compiler is as little to be
/// trusted as a candidate: it runs in the sandbox and what it leaves is checked by who asked.
int compile_with_nvrtc(const char* library);

}  // namespace quern::env::runner
