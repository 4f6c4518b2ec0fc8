// What is done with measurements, whatever made them: a wide one is repeated, a large claim is
// confirmed or capped, equal ones are pooled.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "env/judge/judgement.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

struct measuring {
  /// Measures once, in processes of its own for every `round`; adds one or more lists. False: the
  /// verdict says already what was wrong.
  std::function<bool(std::uint64_t round, std::vector<process_pairs>& into)> measure;
  std::function<judgement(std::span<const process_pairs>)> judge;
  claim_limits claims;
  /// The measurement is asked for to bear out `claim_e2`, or whatever is cached.
  bool recheck = false;
  /// A large claim is measured again at once.
  bool confirm_at_once = false;
};

/// Measures and fills the timed part of `v`. `runs`: window pairs of earlier measurements, which
/// grow; `claim_e2`: the first large claim, as measured, to be borne out.
void measure_and_settle(const measuring& how, std::vector<process_pairs>& runs,
                        std::optional<std::int64_t>& claim_e2, verdict& v);

}  // namespace quern::env
