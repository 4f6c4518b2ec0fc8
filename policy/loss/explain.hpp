// The loss in words: the whole formula of a preset with its numbers filled in, for `quern explain
// loss`.
#pragma once

#include <string>

#include "policy/loss/preset.hpp"

namespace quern::policy {

/// Plain text, some 20 lines: from reward to advantage, ratio, token loss, gradient, denominator,
/// and the rules for odd cases. Every term that the parameters switch off is left out, so what is
/// printed is what is computed.
std::string explain_loss(const loss_parameters& parameters);

}  // namespace quern::policy
