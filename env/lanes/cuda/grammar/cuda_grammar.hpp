// What lane `cuda` brings to the grammar.
#pragma once

#include "env/grammar/kernel_grammar.hpp"

namespace quern::env {

const kernel_grammar* cuda_grammar();

}  // namespace quern::env
