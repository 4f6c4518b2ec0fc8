// What a generator made of a sample, as one content-addressed blob: after a crash the learner is
// fed from it, and nothing is ever tokenised again. docs/formats/sample.md has the bytes.
#pragma once

#include <string>
#include <string_view>

#include "actors/messages.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// Form 2. Versions, incarnation and sample id are in the ledger.
std::string encode_sample(const generated_sample& sample);

/// Reads form 2, and form 1, which runs of earlier builds have: one prompt and one completion that
/// is trained. Fills tokens, segments, log_probs, text and truncated. Errors: version; corrupt,
/// also where segments do not fit the tokens.
base::expected<generated_sample> decode_sample(std::string_view blob);

}  // namespace quern::actors
