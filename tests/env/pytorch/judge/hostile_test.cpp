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

TEST_CASE("the kinds of bad candidates are counted") {
  std::set<std::string> names;
  std::size_t all = 0, with_control = 0;
  for (const auto& list :
       {wrong_candidates(), malformed_candidates(), hostile_candidates(), reaching()})
    for (const bad_candidate& one : list) {
      CHECK_FALSE(one.caught.empty());
      CHECK(std::find(one.caught.begin(), one.caught.end(), verdict_kind::ok) == one.caught.end());
      names.insert(one.name);
      ++all;
      with_control += one.without.empty() ? 0 : 1;
    }
  CHECK(names.size() == all);
  CHECK(all == 59);
  MESSAGE(all << " kinds, " << with_control << " with a control by layers, " << reaching().size()
              << " with a control without a sandbox");
}
