// Messages between control and generators, as plain values: prompts to be answered, and samples.
// messages.hpp has all others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/decide/generator_work.hpp"
#include "actors/decide/ids.hpp"
#include "actors/decide/token_segments.hpp"
#include "actors/wire.hpp"
#include "base/hash.hpp"

namespace quern::actors {

/// A generator takes work: jobs granted in all since its hello. Control sends while sent < granted.
/// Also said when it begins to work, when it has nothing left to do, and once each status_interval
/// in between, with what it did since its hello.
struct generation_credit {
  std::int64_t granted = 0;
  bool working = false;
  std::int64_t tokens = 0;          ///< sampled
  std::int64_t device_wait_ns = 0;  ///< for its turn on a GPU that it shares
  generator_work work;
};
QUERN_MESSAGE(generation_credit, granted, working, tokens, device_wait_ns, work)

/// One prompt, `samples.size()` completions. Random numbers are addressed by (seed, sample).
/// `recorded`: one text for each of `samples`, which is scored and not sampled; empty: all are
/// sampled.
struct generate_group {
  incarnation_id incarnation = 0;
  group_id group = 0;
  std::vector<sample_id> samples;
  std::string prompt;
  std::int64_t seed = 0;
  std::int32_t max_tokens = 0;
  float_bits temperature = 1.0;
  std::vector<std::string> recorded;
};
QUERN_MESSAGE(generate_group, incarnation, group, samples, prompt, seed, max_tokens, temperature,
              recorded)

/// A stretch of the policy's tokens by one version.
struct wire_segment {
  std::int64_t first_token = 0;  ///< counts the policy's tokens alone, over all turns
  weights_version version = 0;
  base::hash128 weights;
};
QUERN_MESSAGE(wire_segment, first_token, version, weights)

/// One finished sample, of any number of turns.
struct generated_sample {
  incarnation_id incarnation = 0;
  sample_id sample = 0;
  std::string tokens;                   ///< all of them in order; block of int32
  std::vector<token_segment> segments;  ///< who made them, and which are trained
  std::string log_probs;  ///< of the policy's tokens, at the sampling temperature; block of float
  std::vector<wire_segment> versions;  ///< of the policy's tokens
  std::string text;                    ///< of the policy's last turn: what is judged
  bool truncated = false;              ///< that turn has no end token
};
QUERN_MESSAGE(generated_sample, incarnation, sample, tokens, segments, log_probs, versions, text,
              truncated)

/// Stop working on a sample; no answer follows.
struct cancel_generation {
  std::vector<sample_id> samples;
};
QUERN_MESSAGE(cancel_generation, samples)

}  // namespace quern::actors
