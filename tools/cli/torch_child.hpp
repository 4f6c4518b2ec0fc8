// quern-torch as a child of a command of quern, which has no LibTorch itself.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"

namespace quern::tools {

/// Runs `quern-torch ROLE WORDS...` to its end, on this process's terminal. Its exit code; where
/// that is not 0 it has said why on stderr. Errors: no such program beside this one; unavailable, a
/// signal ended it.
base::expected<int> run_torch(const std::string& role, std::vector<std::string> words);

}  // namespace quern::tools
