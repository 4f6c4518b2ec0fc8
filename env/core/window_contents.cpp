#include "env/core/window_contents.hpp"

#include <algorithm>
#include <utility>

namespace quern::env {

base::expected<window_contents> window_contents::create(const task_instance& instance,
                                                        std::int64_t calls, bool one_by_one) {
  QUERN_TRY(auto shared, make_input_arena(instance, one_by_one ? 1 : calls));
  window_contents made(std::move(shared), instance.inputs.size());
  if (one_by_one) {
    QUERN_TRY(auto all, make_input_arena(instance, calls));
    made.private_.emplace(std::move(all));
  }
  return made;
}

void window_contents::show(std::int64_t call) const {
  if (!private_) return;
  for (std::size_t i = 0; i < inputs_; ++i)
    std::ranges::copy(private_->at(i, call), shared_.at(i, 0).begin());
}

}  // namespace quern::env
