// Where the running program, its siblings and its data are: the same in a build tree and installed.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/clock.hpp"
#include "base/status.hpp"

namespace quern::base {

/// When this program began, by the steady clock.
nanoseconds_t started_ns();

/// Folder of the running executable.
std::filesystem::path program_folder();

/// A program of ours beside the running one ("quern-runner"); not_found says where it was looked
/// for.
expected<std::filesystem::path> sibling_program(std::string_view name);

/// A data folder such as "env/suites", "env/prompts", "configs", "policy/demo": in $QUERN_SHARE, in
/// ../share/quern of an installed tree, or in the source tree that a build folder lies in.
expected<std::filesystem::path> share_folder(std::string_view name);

/// Text that names this build: version and a hash of the programs that lie beside the running one.
/// Processes of one run compare it at hello. Read once, about 10 ms.
std::string build_id();

}  // namespace quern::base
