// Candidates of lane pytorch that are wrong, malformed or hostile: each is a kind of its own, with
// the verdict that is right and what it would get through without.
#pragma once

#include <string>
#include <vector>

#include "env/judge/judge_layer.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::test::modules {

struct bad_candidate {
  std::string name;
  std::string source;
  std::vector<env::verdict_kind> caught;  ///< several: which of them is a race
  std::string said = {};                  ///< part of the detail
  std::string reason = {};                ///< of the verdict; empty: any
  /// Without these layers it gets the verdict `ok`. None: no control.
  std::vector<env::judge_layer> without = {};
};

/// They compute something else, or nothing.
std::vector<bad_candidate> wrong_candidates();
/// They cannot be loaded or called.
std::vector<bad_candidate> malformed_candidates();
/// They want a reward for results that they did not compute, or disturb who looks at them.
std::vector<bad_candidate> hostile_candidates();

/// What candidates reach for that are held by the sandbox alone.
struct reached_for {
  std::string folder;  ///< of temporary files, the evaluator's too
  int port = 0;        ///< of this machine, where somebody listens
};
/// Hostile ones that only timed calls show, and that have a control.
std::vector<bad_candidate> timed_candidates();

/// Each does its deed when it is imported, is honest otherwise, and fails where the deed does: so
/// without the sandbox it gets the verdict `ok`.
std::vector<bad_candidate> reaching_candidates(const reached_for& what);

/// A socket of this machine that is listened to, as long as the process lives; its port.
int listening_port();

}  // namespace quern::test::modules
