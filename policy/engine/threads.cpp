#include "policy/engine/threads.hpp"

#include <algorithm>

#include <ATen/Parallel.h>

namespace quern::policy {

void set_threads(int count) {
  at::set_num_threads(std::max(count, 1));
}

}  // namespace quern::policy
