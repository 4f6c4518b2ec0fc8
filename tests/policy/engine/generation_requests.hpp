// What tests of generators ask for, and what they get.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "policy/engine/generator.hpp"

namespace quern::test {

using results_by_id = std::map<std::uint64_t, policy::generation_result>;

/// Goes on behind end-of-text, so that its length is known.
inline policy::generation_request ask(std::uint64_t id, std::vector<std::int32_t> prompt,
                                      std::int32_t max_tokens = 20) {
  policy::generation_request r;
  r.id = id;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  r.seed = 11;
  r.ignore_eos = true;
  return r;
}

inline results_by_id by_id(std::vector<policy::generation_result> results) {
  results_by_id map;
  for (policy::generation_result& r : results)
    map[r.id] = std::move(r);
  return map;
}

}  // namespace quern::test
