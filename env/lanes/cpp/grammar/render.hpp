// C++ texts of a composition: the candidate kernel of a style, and the plain baseline.
#pragma once

#include <string>

#include "env/grammar/composition.hpp"
#include "env/lanes/cpp/grammar/style.hpp"

namespace quern::env {

/// Short and very regular, one statement a step, so that a small policy can write it. The style is
/// one of styles_of(subject). A mistake in the composition is made by computing another one, with
/// the subject's prototype; of the errors only those of the text (missing_columns, missing_rows,
/// unshifted) are looked at. Ends with a newline.
std::string render_kernel(const composition& subject, const kernel_style& style,
                          kernel_error error = kernel_error::none,
                          const composition* computed = nullptr);

/// The baseline: honest, simple and slow. Scalar loops, one sweep over memory for each step through
/// the output or the workspace, double-precision math functions.
std::string render_plain(const composition& what);

}  // namespace quern::env
