// The judge and the oracle of a lane on this machine.
#include "env/lanes/open_judge.hpp"

#include "env/lanes/cpp/cpp_evaluator.hpp"
#include "env/lanes/cpp/cpp_oracle.hpp"
#include "env/lanes/cuda/cuda_evaluator.hpp"
#include "env/lanes/cuda/cuda_oracle.hpp"

namespace quern::env {

base::expected<std::unique_ptr<candidate_judge>> open_judge(lane which, evaluator_options options) {
  if (which == lane::cuda) {
    QUERN_TRY(auto opened, cuda_evaluator::open(std::move(options)));
    return opened;
  }
  QUERN_TRY(auto opened, cpp_evaluator::open(std::move(options)));
  return opened;
}

base::expected<std::unique_ptr<reference_oracle>> open_oracle(lane which,
                                                              const evaluator_options& options) {
  return which == lane::cuda ? open_cuda_oracle(options) : open_cpp_oracle(options);
}

}  // namespace quern::env
