// Candidates that want a reward without computing, or reach for what is not theirs, and what gets
// through without the layer that stops them.
#include <filesystem>
#include <set>

#include "bad_candidates.hpp"
#include "bad_checks.hpp"
#include "tests/env/judge/layers_off.hpp"

using namespace quern::test;
using namespace quern::test::modules;

namespace {

constexpr int most_judgements = 9;  // of one that is noisy on a busy machine

std::vector<bad_candidate> reaching() {
  return reaching_candidates({std::filesystem::temp_directory_path().string(), listening_port()});
}

}  // namespace

TEST_CASE("results that were not computed from this call's inputs are caught") {
  if (judge() == nullptr) return;
  check_caught(hostile_candidates());
}

TEST_CASE("what reaches out of the process is refused or ends it") {
  if (judge() == nullptr) return;
  check_caught(reaching());
}

TEST_CASE("without its layer each of these passes") {
  if (judge() == nullptr) return;
  for (const bad_candidate& one : hostile_candidates()) {
    if (one.without.empty()) continue;
    const without_layers removed(one.without);
    const verdict v = judged(one.source);
    CAPTURE(one.name);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == "ok");
  }
}

TEST_CASE("what only timed calls show is caught there, and not without its layer") {
  if (judge() == nullptr) return;
  const auto timed = [](const bad_candidate& one) {
    verdict v = judged(one.source, task_of(layered), true);
    for (int i = 1; i < most_judgements && v.kind == verdict_kind::noisy; ++i)
      v = judged(one.source, task_of(layered), true);
    return v;
  };
  const auto candidates = timed_candidates();
  CHECK(candidates.size() == 2);
  for (const bad_candidate& one : candidates) {
    CAPTURE(one.name);
    const verdict v = timed(one);
    CAPTURE(name_of(v.kind));
    CAPTURE(v.detail);
    CHECK(std::find(one.caught.begin(), one.caught.end(), v.kind) != one.caught.end());
    const without_layers removed(one.without);
    const verdict through = timed(one);
    CAPTURE(through.detail);
    CHECK(name_of(through.kind) == "ok");
  }
}

TEST_CASE("no candidate sees the inputs of a timed call before it is asked for the call") {
  if (judge() == nullptr) return;
  // It tells how many calls it was asked for at once: those it could compute as one.
  const std::string looks =
      candidate(honest,
                "import sys\n\ndef calls_asked_for():\n    frame = sys._getframe()\n"
                "    while not {'begin', 'end'} <= frame.f_locals.keys(): frame = frame.f_back\n"
                "    return frame.f_locals['end'] - frame.f_locals['begin']\n\n",
                "        if calls_asked_for() > 1: return torch.zeros(24, 32)\n");
  const verdict v = judged(looks, task_of(layered), true);
  CAPTURE(v.detail);
  // On a busy machine it has no time, and still no wrong result.
  CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
  const without_layers removed({quern::env::judge_layer::unseen_inputs});
  const verdict seen = judged(looks, task_of(layered), true);
  CAPTURE(seen.detail);
  CHECK(name_of(seen.kind) == "wrong_value");
}

TEST_CASE("the kinds of bad candidates are counted") {
  std::set<std::string> names;
  std::size_t all = 0, with_control = 0, without_gain = 0;
  for (const auto& list :
       {wrong_candidates(), malformed_candidates(), hostile_candidates(), reaching()})
    for (const bad_candidate& one : list) {
      CAPTURE(one.name);
      CHECK_FALSE(one.caught.empty());
      const bool may_be_ok =
          std::find(one.caught.begin(), one.caught.end(), verdict_kind::ok) != one.caught.end();
      // Where a layer is what catches it, nothing else may be right.
      if (may_be_ok) CHECK(one.without.empty());
      names.insert(one.name);
      ++all;
      with_control += one.without.empty() ? 0 : 1;
      without_gain += may_be_ok ? 1 : 0;
    }
  CHECK(names.size() == all);
  CHECK(all == 110);
  MESSAGE(all << " kinds, " << with_control << " with a control by layers, " << reaching().size()
              << " with a control without a sandbox, " << without_gain
              << " that may be ok and gain nothing");
}
