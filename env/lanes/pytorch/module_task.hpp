// A task of this lane as it is checked and timed: what does not depend on the candidate.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/file.hpp"
#include "base/status.hpp"
#include "env/core/core_peak.hpp"
#include "env/core/core_task.hpp"
#include "env/lanes/pytorch/module_content.hpp"
#include "env/lanes/pytorch/module_process.hpp"
#include "env/tensor_task/check.hpp"

namespace quern::env {

/// Bytes that inputs, outputs and weights of one call may take on a core.
inline constexpr std::int64_t most_call_bytes = std::int64_t{1} << 30;
/// What a reference may take for one question that is not timed.
inline constexpr question_limits reference_limits{120, 480};

struct module_task : core_task {
  base::temp_folder folder;         ///< has the reference's text, readable by children
  std::filesystem::path reference;  ///< its file
  module_sheet sheet;
  module_making making;
  module_weights weights;
  std::unique_ptr<module_content> content;
  output_limits limit;  ///< of the nominal content, calibrated
  double share_of_limit =
      0;  ///< that the reference's own error takes, of the output where it takes most
  bool compared_with_f64 = false;  ///< no: it does not run in f64, and limits are its dtype's

  module_task(base::temp_folder in, module_weights of)
      : folder(std::move(in)), weights(std::move(of)) {}
};

/// A text in a file that children may read: in a new private folder, which goes with the result.
struct text_file {
  base::temp_folder folder;
  std::filesystem::path path;
};
base::expected<text_file> write_module(std::string_view name, const std::string& text);

/// A child in which the module of `path` is loaded. `core`: -1: any. Errors as reference_error's.
base::expected<python_child> loaded_reference(python_zygote& zygote, const std::string& path,
                                              int core);

/// Error (exhausted): the task needs what is not on this machine and cannot be had in a sandbox.
base::status check_needs_of(const task& subject);
/// Error (exhausted): inputs, results and weights together are beyond most_call_bytes.
base::status check_size_of(const module_sheet& sheet, const task_instance& at);

/// Error (invalid_argument): results of this reference cannot be compared with anybody's, or stored
/// ones would be right. `degenerate`: the task's; stored results may be right then.
base::status check_use_of(const module_sheet& sheet, bool degenerate);
/// The weights of a described reference, in memory that nobody else can write.
base::expected<module_weights> weights_of(python_child& reference, const module_sheet& sheet);

/// A task whose module is known and whose weights are made, without content and expected results,
/// and the process of its reference that told all this.
struct described_module {
  std::unique_ptr<module_task> task;
  python_child process;
};

/// Runs the reference to learn what it is. `input_seed`: secret of this evaluator. Errors as
/// prepare_module()'s, but for references that cannot be compared: what only has to be timed may
/// draw random numbers and keep state.
base::expected<described_module> describe_module(std::shared_ptr<const task> subject,
                                                 python_zygote& zygote, std::uint64_t input_seed);

/// Content of calls, by a process of the reference that was described.
std::unique_ptr<module_content> content_of(const module_task& of, python_child process,
                                           std::uint64_t input_seed);

/// Describes the module, draws content, and runs the reference on all of it, in its precision and
/// in f64. `input_seed`: secret of this evaluator. Errors: invalid_argument says what is wrong with
/// the task or its reference; exhausted: what it needs is not to be had on this device class;
/// anything else is of this host.
base::expected<std::unique_ptr<module_task>> prepare_module(std::shared_ptr<const task> subject,
                                                            python_zygote& zygote,
                                                            std::uint64_t input_seed,
                                                            core_peak& peak);

/// A reference's process to be timed on a core, with its model made.
base::expected<std::unique_ptr<module_process>> fresh_reference(const module_task& of,
                                                                python_zygote& zygote, int core);

}  // namespace quern::env
