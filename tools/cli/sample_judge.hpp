// Judges completions of one task as `quern eval` judges its kernel.
#pragma once

#include <memory>
#include <string>

#include "env/judge/judge.hpp"
#include "tools/cli/eval_job.hpp"

namespace quern::tools {

/// One thread.
class sample_judge {
 public:
  /// `asked.task` is what resolve_task gave, `found` what env::find_task found. Errors: those of
  /// terms_of() and of lane::open_judge.
  static base::expected<sample_judge> open(const eval_arguments& asked,
                                           const env::found_task& found);

  /// Of what a policy wrote: `malformed` where there is no kernel to be read in it.
  env::verdict judge(const std::string& completion);

 private:
  explicit sample_judge(std::unique_ptr<env::candidate_judge> judge) : judge_(std::move(judge)) {}
  std::unique_ptr<env::candidate_judge> judge_;
  env::evaluation_request request_;  ///< all but the source
};

}  // namespace quern::tools
