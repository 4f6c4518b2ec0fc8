// The one way to doctest. torch redefines CHECK (c10's logging macros): whatever of torch a test
// needs comes first here, then those macros go, then doctest defines its own.
#pragma once

#ifdef QUERN_TEST_TORCH
#include <ATen/core/Tensor.h>
#include <c10/util/Logging.h>
#undef CHECK
#undef CHECK_EQ
#undef CHECK_NE
#undef CHECK_LT
#undef CHECK_LE
#undef CHECK_GT
#undef CHECK_GE
#undef CHECK_NOTNULL
#undef FAIL
#undef WARN
#undef INFO
#endif

#include <filesystem>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "base/program.hpp"

namespace quern::test {

/// The source tree (golden files, suites).
std::filesystem::path source_dir();

/// The folder with the built programs, wherever it was moved to.
inline std::filesystem::path program_dir() {
  return base::program_folder();
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// The running case, or a part of it, is not carried out, for `reason`, which goes to stdout. May
/// be called by any thread. The case counts as skipped, also where other parts of it or other
/// subcases were checked; as failed where a check failed. tools/test fails where
/// tests/expected_skips.txt does not expect it of such a machine.
void skip(const std::string& reason);

}  // namespace quern::test
