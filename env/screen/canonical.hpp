// One spelling for all texts that differ only in comments and layout: the identity of a candidate.
#pragma once

#include <string>
#include <string_view>

#include "base/hash.hpp"

namespace quern::env {

/// Whether what the text computes may depend on its layout: it names its line, or macros that paste
/// or stringise, its own or, as far as their names tell, of headers. `#line` alone changes nothing
/// that is not named. Doubt costs no more than that a text is not known again when it is laid out
/// anew.
bool sees_layout(std::string_view source);

/// The text itself where it sees its layout. Else tokens with single spaces between them,
/// preprocessor lines on lines of their own, literals as they were written, digraphs as what they
/// mean. Idempotent: canonical(canonical(x)) is canonical(x).
std::string canonical_source(std::string_view source);

/// xxh128 of canonical_source: the `source` of verdicts.
base::hash128 source_hash(std::string_view source);

}  // namespace quern::env
