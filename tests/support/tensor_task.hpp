// Tasks with tensors as tests change them.
#pragma once

#include <memory>

#include "env/task/task.hpp"
#include "env/tensor_task/task_instance.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::test {

/// The body of `of` to be changed, until the task is copied or changed by another call: a copy of
/// its own, since tasks share their bodies. A task without body gets an empty one.
inline env::tensor_body& edit_tensors(env::task& of) {
  auto copy = of.body == nullptr ? std::make_shared<env::tensor_body>()
                                 : std::make_shared<env::tensor_body>(env::tensors_of(of));
  env::tensor_body& editable = *copy;
  of.body = std::move(copy);
  return editable;
}

}  // namespace quern::test
