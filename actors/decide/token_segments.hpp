// Who made which tokens of a sample: the prompt, what the policy wrote, what its environment put in
// between. A sample of any number of turns is one sequence of tokens and a list of such segments,
// from the generator to the loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/wire.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// The numbers are those of stored samples (docs/formats/sample.md) and never change their meaning.
enum class token_origin : std::uint8_t {
  prompt = 0,
  policy = 1,       ///< sampled: these tokens alone have log-probs and versions
  environment = 2,  ///< what a turn was answered with: compiler text, the answer of a tool
};
/// Of a number that is none of them: "unknown".
std::string_view name_of(token_origin origin);

/// A stretch of tokens, from the end of the segment before it. Neighbours may have one origin.
struct token_segment {
  std::int64_t length = 0;  ///< tokens, at least 1
  token_origin origin = token_origin::prompt;
  bool trained = false;  ///< of the policy's segments alone: its tokens are in the loss
  bool operator==(const token_segment&) const = default;
};
QUERN_MESSAGE(token_segment, length, origin, trained)

/// Whether `segments` are those of a sample with so many tokens and log-probs. Errors
/// (invalid_argument, with the numbers): no segment; one that is empty, of no known origin, or
/// trained and not the policy's; a policy's at the beginning, which nothing would predict; lengths
/// that do not add up to `tokens`, or those of the policy's to `log_probs`.
base::status check_segments(std::span<const token_segment> segments, std::int64_t tokens,
                            std::int64_t log_probs);
/// The same for tokens and log-probs as they cross the wire: blocks of int32 and of float.
base::status check_segments(std::span<const token_segment> segments, const std::string& tokens,
                            const std::string& log_probs);

// What follows wants segments that were checked.

/// A prompt and one completion, which is trained. What has no tokens has no segment.
std::vector<token_segment> single_turn(std::int64_t prompt, std::int64_t completion);

/// Tokens that the policy sampled, in all turns.
std::int64_t policy_tokens(std::span<const token_segment> segments);

/// For each token of the sample: 1 if it is in the loss, else 0.
std::vector<std::uint8_t> loss_mask(std::span<const token_segment> segments);

/// The same tokens, the policy's first `count` out of the loss; a segment in which they end becomes
/// two. `count` goes by the policy's tokens alone, as version segments do, and may be larger than
/// there are.
std::vector<token_segment> mask_head(std::span<const token_segment> segments, std::int64_t count);

/// For each token of the sample: the next of `of_policy`, which has an entry for each of the
/// policy's tokens in order, or `elsewhere` for a token of another origin.
template <class Value>
std::vector<Value> by_token(std::span<const token_segment> segments,
                            const std::vector<Value>& of_policy, Value elsewhere) {
  std::vector<Value> values;
  auto next = of_policy.begin();
  for (const token_segment& part : segments) {
    if (part.origin == token_origin::policy) {
      values.insert(values.end(), next, next + part.length);
      next += part.length;
    } else {
      values.insert(values.end(), static_cast<std::size_t>(part.length), elsewhere);
    }
  }
  return values;
}

}  // namespace quern::actors
