// How dear a composition is for the plain baseline: decides sizes, and what is worth a task.
#pragma once

#include "env/grammar/composition.hpp"

namespace quern::env {

/// Time of the plain baseline in ns an element of [n, m], from a table that was measured once on a
/// server core of 2024. Only choices depend on it, no result.
double plain_ns(const composition& what);

/// Time of the plain CUDA baseline (render_cuda_plain) in ns an element of [n, m] on a device with
/// the memory of an H200, from the bytes that it moves. Only choices depend on it, no result.
double plain_gpu_ns(const composition& what);

}  // namespace quern::env
