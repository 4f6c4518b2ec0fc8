// How many cores LibTorch may use.
#pragma once

namespace quern::policy {

/// Threads of one operator, for the calling thread's operators. At least 1.
void set_threads(int count);

}  // namespace quern::policy
