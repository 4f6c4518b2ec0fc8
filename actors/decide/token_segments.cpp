#include "actors/decide/token_segments.hpp"

#include <algorithm>

namespace quern::actors {

using base::errc;
using base::fail;

std::string_view name_of(token_origin origin) {
  switch (origin) {
    case token_origin::prompt:
      return "prompt";
    case token_origin::policy:
      return "policy";
    case token_origin::environment:
      return "environment";
  }
  return "unknown";
}

base::status check_segments(std::span<const token_segment> segments, std::int64_t tokens,
                            std::int64_t log_probs) {
  if (segments.empty()) {
    return fail(errc::invalid_argument, "{} tokens have no segments: at least one is needed",
                tokens);
  }
  std::int64_t covered = 0;
  std::int64_t sampled = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const token_segment& part = segments[i];
    if (part.origin > token_origin::environment) {
      return fail(errc::invalid_argument, "segment {} has origin {}, known are 0 to {}", i,
                  static_cast<int>(part.origin), static_cast<int>(token_origin::environment));
    }
    if (part.length < 1) {
      return fail(errc::invalid_argument, "segment {} ({}) has {} tokens, the least is 1", i,
                  name_of(part.origin), part.length);
    }
    // Not of the sum, which could overflow.
    if (part.length > tokens - covered) {
      return fail(errc::invalid_argument,
                  "segment {} ({}) has {} tokens, but only {} of {} are left for it", i,
                  name_of(part.origin), part.length, tokens - covered, tokens);
    }
    const bool of_policy = part.origin == token_origin::policy;
    if (part.trained && !of_policy) {
      return fail(errc::invalid_argument,
                  "segment {} ({}, {} tokens) is trained: only the policy's tokens have log-probs",
                  i, name_of(part.origin), part.length);
    }
    covered += part.length;
    if (of_policy) sampled += part.length;
  }
  if (covered != tokens) {
    return fail(errc::invalid_argument, "{} segments cover {} of {} tokens", segments.size(),
                covered, tokens);
  }
  if (segments.front().origin == token_origin::policy) {
    return fail(errc::invalid_argument,
                "the policy's {} tokens stand at the beginning, where nothing predicts the first",
                segments.front().length);
  }
  if (sampled != log_probs) {
    return fail(errc::invalid_argument, "the policy's segments have {} tokens, and {} log-probs",
                sampled, log_probs);
  }
  return {};
}

base::status check_segments(std::span<const token_segment> segments, const std::string& tokens,
                            const std::string& log_probs) {
  if (tokens.size() % sizeof(std::int32_t) != 0 || log_probs.size() % sizeof(float) != 0) {
    return fail(errc::invalid_argument,
                "{} bytes of tokens and {} of log-probs: both have 4 bytes each", tokens.size(),
                log_probs.size());
  }
  return check_segments(segments, count_in_block<std::int32_t>(tokens),
                        count_in_block<float>(log_probs));
}

std::vector<token_segment> single_turn(std::int64_t prompt, std::int64_t completion) {
  std::vector<token_segment> segments;
  if (prompt > 0) segments.push_back({prompt, token_origin::prompt, false});
  if (completion > 0) segments.push_back({completion, token_origin::policy, true});
  return segments;
}

std::int64_t policy_tokens(std::span<const token_segment> segments) {
  std::int64_t count = 0;
  for (const token_segment& part : segments) {
    if (part.origin == token_origin::policy) count += part.length;
  }
  return count;
}

std::vector<std::uint8_t> loss_mask(std::span<const token_segment> segments) {
  std::vector<std::uint8_t> mask;
  for (const token_segment& part : segments) {
    mask.insert(mask.end(), static_cast<std::size_t>(part.length),
                static_cast<std::uint8_t>(part.trained ? 1 : 0));
  }
  return mask;
}

std::vector<token_segment> mask_head(std::span<const token_segment> segments, std::int64_t count) {
  std::vector<token_segment> masked;
  for (token_segment part : segments) {
    if (part.origin == token_origin::policy && count > 0) {
      const std::int64_t head = std::min(part.length, count);
      count -= head;
      // Nothing to cut where all of it is out of the loss anyway.
      if (part.trained && head < part.length) {
        masked.push_back({head, token_origin::policy, false});
        part.length -= head;
      } else {
        part.trained = false;
      }
    }
    masked.push_back(part);
  }
  return masked;
}

}  // namespace quern::actors
