// The judge of a lane on this machine.
#include "env/gpu/open_judge.hpp"

#include "env/gpu/gpu_evaluator.hpp"

namespace quern::env {

base::expected<std::unique_ptr<candidate_judge>> open_judge(lane which, evaluator_options options) {
  if (which == lane::cuda) {
    QUERN_TRY(auto opened, gpu_evaluator::open(std::move(options)));
    return opened;
  }
  QUERN_TRY(auto opened, evaluator::open(std::move(options)));
  return opened;
}

}  // namespace quern::env
