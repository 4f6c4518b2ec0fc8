// Everything that can be known before a run begins, checked in one place: `quern train --dry-run`,
// `quern train` and `quern resume` ask the same, before anything is made or written.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/status.hpp"
#include "env/sandbox/probe.hpp"
#include "policy/text/model_config.hpp"
#include "storage/file_system.hpp"

namespace quern::actors {

enum class run_beginning {
  fresh,     ///< `folder` is to become a run
  resuming,  ///< `folder` is one
  later      ///< as fresh, but the policy is not there yet: nothing that needs it is checked
};

/// What a run needs and this machine does not have: one sentence each. Where the caller takes them,
/// the checks that need the hardware are left out.
using missing_hardware = std::vector<std::string>;

/// Model (files, completeness of the weights, tokenizer), tasks, reward, template, prompt lengths,
/// programs, sandbox, core, device and its memory, address and keys of hosts, folders. Starts no
/// process of the run and leaves nothing behind; reads no weights. Every error is invalid_argument
/// and names key, value, limit and what to do. Gives the tasks that it had to make. A
/// GPU that is not there is an error, or a sentence in `missing`. `begins_with`: the shape of the
/// policy that a later stage will begin with, where it is known, for its memory. `disks`: what kind
/// of file system a folder is on; a run with a ledger is refused on one of a network.
base::expected<task_book> preflight(
    const run_config& config, const std::filesystem::path& folder, run_beginning how,
    missing_hardware* missing = nullptr, const policy::model_config* begins_with = nullptr,
    const storage::file_system_probe& disks = storage::file_system_at);

/// What evaluators of this run have children for, of which `env.sandbox: required` asks more or
/// less.
env::sandboxed_code sandboxed_code_of(const run_config& config);

/// The shape of the policy that the run trains, and with it the stages of a chain after it: what
/// stage sft makes, that of policy.model for others. Errors: it cannot be read.
base::expected<policy::model_config> policy_shape(const run_config& config);

}  // namespace quern::actors
