// `quern-runner gpu LIBRARY`: the process in which kernels run on a GPU.
#pragma once

namespace quern::env::runner {

/// Serves questions on socket_fd until the evaluator is gone; returns the exit status. `library`:
/// path of libquern_cuda.so. In the device-only form only the evaluator's own code runs on the host
/// here; in the host-entry form a candidate shares the process, and nothing that it says counts.
int serve_gpu(const char* library);

}  // namespace quern::env::runner
