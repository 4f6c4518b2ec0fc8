// What lane `cpp` brings to the grammar.
#pragma once

#include "env/grammar/kernel_grammar.hpp"

namespace quern::env {

const kernel_grammar* cpp_grammar();

}  // namespace quern::env
