// From a composition to a task: reference text, sizes, hidden inputs, tolerance, cost, plain
// baseline.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "env/grammar/composition.hpp"
#include "env/grammar/probe.hpp"
#include "env/task/task.hpp"

namespace quern::env {

struct task_options {
  /// The sizes are chosen so that the plain baseline takes about this long. 0: as is usual in the
  /// lane.
  double plain_us = 0;
  /// One that has a grammar.
  const env::lane* lane = nullptr;
};

/// plain_us, or what 0 stands for.
double plain_us_of(const task_options& options);

/// TorchScript, one line a step, h from first to last: "def forward(x, w):\n    h = x\n    h = h *
/// w\n ...".
std::string reference_text(const composition& what);

/// The inverse of reference_text, so that a task file tells which composition it is. Errors name
/// the line that the grammar does not write.
base::expected<composition> composition_of_reference(std::string_view reference);

/// Shapes, names and texts without sizes, tolerance or distributions: enough for the entry points.
task bare_task(const composition& what);

/// The whole task: name FAMILY_<12 hex digits of the composition's text>, timed and two hidden
/// sizes, four hidden distributions, tolerance calibrated by the interpreters, `baseline: plain`.
/// Pure function of its arguments. Error: an invalid composition.
base::expected<task> make_task(const composition& what, const task_options& options);
/// The same of one that was tried already.
base::expected<task> make_task(const composition_probe& probe, const task_options& options);

}  // namespace quern::env
