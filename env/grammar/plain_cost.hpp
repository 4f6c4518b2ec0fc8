// How dear a composition is for the plain baseline: decides sizes, and what is worth a task.
#pragma once

#include "env/grammar/composition.hpp"

namespace quern::env {

/// Time of a plain kernel in C++ in ns an element of [n, m], from a table that was measured once on
/// a server core of 2024. Only choices depend on it, no result.
double plain_ns(const composition& what);

}  // namespace quern::env
