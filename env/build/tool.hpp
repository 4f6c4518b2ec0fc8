// What the compilers in the sandbox have in common: how they are started, bounded and judged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "env/build/compile_result.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

struct tool_outcome {
  child_end end;
  std::string out, err;
  layer_set layers;
  std::int64_t ms = 0;             ///< from start to end
  int runs = 1;                    ///< of run_compiler(): on the text
  std::unique_ptr<child> process;  ///< holds the work folder
};

/// g++ in PATH, past wrappers such as ccache. Error: not_found.
base::expected<std::filesystem::path> find_compiler();

/// Where the system's compilers and their headers lie.
std::vector<std::string> compiler_folders();

/// A child that may compile: profile, environment, processes, and gcc's folders where `with_gcc`.
child_spec tool_spec(const std::filesystem::path& program, std::vector<std::string> arguments,
                     bool with_gcc);

/// Sets time, memory, files and captured text.
void limit_tool(child_spec& spec, const compile_limits& limits);

/// Runs it to its end, which comes with that of the calling thread's base::thread_deadline.
base::expected<tool_outcome> run_tool(spawner& children, const child_spec& spec);

/// Runs a compiler on a text of ours that it compiles on any host in order: with the flags, limits
/// and layers that candidates have, in a work folder of its own.
using control_run = std::function<base::expected<tool_outcome>()>;

/// That a compiler has failed on the text before, in another way, such as with other headers.
struct earlier_failure {
  child_end end;
  /// Whether that one told just what this one does.
  std::function<bool(const tool_outcome&)> told_the_same;
};

/// Runs a compiler on somebody's text, `spec.in` from its beginning each time, until its end is
/// either the text's doing or the host's (compiler_attempts); `control` follows each first failure.
/// No work folder is there but that of the run, so what a text has filled is free again for the
/// control. Result: success, or a failure that is the text's.
/// Errors are of this host. unavailable: the control failed; it was killed twice; the folder for
/// temporary files has less free than a work folder may hold, where work folders are of the host
/// (no mount namespace).
/// `earlier`: the control comes first. Where the run behind it tells the same, that is the second
/// failure; any other one is a first failure, as without `earlier`.
base::expected<tool_outcome> run_compiler(spawner& children, const child_spec& spec,
                                          const control_run& control,
                                          const std::optional<earlier_failure>& earlier = {});

/// What it prints, for questions such as --version. An end other than success is unavailable.
base::expected<std::string> ask_tool(spawner& children, child_spec spec);

/// A memory file with this content, to be given to a child.
base::expected<base::unique_fd> as_memory_file(const std::string& text);

/// Takes over time, layers and text. Returns whether there should be an artefact; otherwise
/// `result` says timeout or error.
bool take_outcome(const tool_outcome& ran, const compile_limits& limits, compile_result& result);

/// The file `name` of the child's work folder; below zero: it is not there, or is a link. Error:
/// this host cannot open it (no descriptor left).
base::expected<base::unique_fd> open_product(const tool_outcome& ran, const char* name);

}  // namespace quern::env
