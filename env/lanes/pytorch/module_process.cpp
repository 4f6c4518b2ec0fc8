// The process of one candidate or reference.
#include "env/lanes/pytorch/module_process.hpp"

namespace quern::env {

child_end module_process::end() {
  if (!ended_) ended_ = zygote_.end(child_);
  return *ended_;
}

}  // namespace quern::env
