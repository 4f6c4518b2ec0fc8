// The arithmetic that a device can do at best, for roofline floors.
#pragma once

#include <algorithm>

#include "env/device/context_part.h"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {

/// Operations a second beyond what any kernel for this instance reaches, since a floor must not
/// accuse one that is merely very good: with tensor cores whatever the type, but for f64.
inline double flops_at_best(const quern_context_facts& device, const task_instance& at) {
  // Multiply-adds of one multiprocessor a clock, times two, times 2 GHz; f64 with tensor cores.
  constexpr double of_multiprocessor = 8.2e12, of_multiprocessor_f64 = 0.55e12;
  const bool wide = std::any_of(at.inputs.begin(), at.inputs.end(),
                                [](const tensor_layout& t) { return t.type == dtype::f64; });
  return device.multiprocessors * (wide ? of_multiprocessor_f64 : of_multiprocessor);
}

/// What the arithmetic units for the task's types do, operations a second: for people, who compare
/// with what a good kernel reaches. f32 without tensor cores, since TF32 is not f32.
inline double usual_flops(const quern_context_facts& device, const task_instance& at) {
  // Multiply-adds of one multiprocessor a clock, times two, times 1.8 GHz.
  constexpr double half = 3.7e12, single = 0.46e12, wide = 0.24e12;
  const auto any = [&](auto is) {
    return std::any_of(at.inputs.begin(), at.inputs.end(),
                       [&](const tensor_layout& t) { return is(t.type); });
  };
  const bool f64 = any([](dtype t) { return t == dtype::f64; });
  const bool f32 = any([](dtype t) { return t == dtype::f32; });
  const bool small = any([](dtype t) { return t == dtype::bf16 || t == dtype::f16; });
  return device.multiprocessors * (f64 ? wide : small && !f32 ? half : single);
}

}  // namespace quern::env
