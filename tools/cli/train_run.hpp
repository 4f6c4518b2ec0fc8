// One run from its beginning or from where it stands: what quern train and quern resume do, for a
// run alone and for the stages of a chain.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/config/stages.hpp"

namespace quern::tools {

/// Checks everything, makes `folder` and trains to the end. `resume_as`: what a person resumes.
/// Returns the exit code.
int begin_run(const actors::run_config& config, const std::filesystem::path& folder,
              const std::filesystem::path& resume_as);

/// Goes on with the run in `folder`, with settings over its configuration.
int go_on_with_run(const std::filesystem::path& folder, const std::vector<std::string>& settings,
                   const std::filesystem::path& resume_as);

/// All steps are durable and the panel, where there is one, is measured.
bool is_complete_run(const std::filesystem::path& folder);

/// --dry-run: the configuration, the plan and what this machine lacks for it.
int show_plan(const actors::run_config& config, const std::filesystem::path& folder,
              bool has_model);

/// The stages of a chain one after the other, from the first that is not complete. A stage that
/// pauses, stops or fails ends it.
int run_chain(const std::filesystem::path& chain, const std::vector<std::string>& settings);

}  // namespace quern::tools
