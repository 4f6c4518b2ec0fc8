// The hostile candidates of tests/hostile/cpp through a pipeline without the layers that hold them,
// which they must get through: else the layer was not what held them. Where several layers are
// taken away, each must catch the candidate when the others are away: else one of them may do
// nothing. Some gain nothing but speed, so nothing may run beside this test.
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "hostile_suite.hpp"
#include "layers_off.hpp"

using namespace quern::test::hostile;

namespace {

constexpr const char* lock_name = "lock";
constexpr int most_judgements_of_threads = 20;

bool pays(const verdict& v, const quern::base::json& candidate) {
  return v.speedup_e2.value_or(0) > candidate["pays_at_most_e2"].get<std::int64_t>();
}

/// The names of the layers that are taken away for a candidate, but for `kept`.
std::vector<std::string> layers_without(const quern::base::json& candidate,
                                        const std::string& kept = {}) {
  auto names = candidate["without"].get<std::vector<std::string>>();
  std::erase(names, kept);
  return names;
}

/// Whether its controls can be judged on this machine.
bool is_judged_here(const quern::base::json& candidate) {
  if (!candidate.contains("without") || !for_this_machine(candidate)) return false;
  if (std::thread::hardware_concurrency() >= candidate.value("cores", 1U)) return true;
  quern::test::skip(candidate["file"].get<std::string>() + " needs more cores");
  return false;
}

/// Whether so much else runs that two threads may never run at the same time.
bool is_overloaded() {
  double load = 0;
  return getloadavg(&load, 1) == 1 && load > 2 * std::thread::hardware_concurrency();
}

/// Judges without the static screen and without what holds a candidate.
class weakened_pipeline {
 public:
  /// Once; `without`: of the names that the manifest knows.
  verdict judge_once(const quern::base::json& candidate, const std::vector<std::string>& without) {
    std::vector<judge_layer> layers;
    bool lock = true;
    for (const auto& name : without)
      if (name == lock_name)
        lock = false;
      else
        layers.push_back(quern::test::layer_named(name));
    const quern::test::without_layers off(layers);
    const auto own = has_limits(candidate) ? open(false, lock, candidate) : nullptr;
    auto request = request_for(candidate.contains("task") ? subject(candidate) : common_,
                               candidate["file"], candidate.value("verified", false));
    // No claim is too large: that large ones are measured again is no layer of these.
    request.recheck_above = 1e6;
    return quern::test::hostile::judge(own ? *own : lock ? *locked_ : *unlocked_, request);
  }

 private:
  std::unique_ptr<cpp_evaluator> locked_ = open(false), unlocked_ = open(false, false);
  std::shared_ptr<const task> common_ = subject(manifest());
};

/// Whether a candidate with one of its layers ends as it should: what gains speed has none.
bool is_caught(const verdict& v, const quern::base::json& candidate, const quern::base::json& end) {
  return is_right(v, end) && !(gains_speed(candidate) && pays(v, candidate));
}

}  // namespace

TEST_CASE("hostile candidates that gain nothing but speed gain none, the screen on and off") {
  const auto m = manifest();
  int seen = 0;
  for (const auto& c : m["candidates"]) {
    if (!gains_speed(c) || !for_this_machine(c)) continue;
    const std::string file = c["file"];
    for (const bool screen : {true, false}) {
      const auto judging = open(screen, true, c);
      const auto v = judge(*judging, request_for(subject(c), file, false));
      CAPTURE(file);
      CAPTURE(screen);
      CAPTURE(name_of(v.kind));
      CAPTURE(v.reason);
      CAPTURE(v.detail);
      CHECK(is_right(v, c[screen ? "screen_on" : "screen_off"]));
      CHECK((v.kind == verdict_kind::ok || !v.speedup_e2.has_value()));
      if (v.kind == verdict_kind::ok) MESSAGE(file, " claims ", *v.speedup_e2, " hundredths");
      CHECK_FALSE(pays(v, c));
      const auto next = judge(*judging, request_for(subject(m), "honest.cpp", true));
      CAPTURE(next.detail);
      CHECK(next.kind == verdict_kind::ok);
    }
    ++seen;
  }
  CHECK(seen >= 2);
}

TEST_CASE("hostile candidates get what they want without the layers that hold them") {
  const auto m = manifest();
  weakened_pipeline weakened;
  int seen = 0;
  for (const auto& c : m["candidates"]) {
    if (!is_judged_here(c)) continue;
    const std::string file = c["file"];
    CAPTURE(file);
    auto v = weakened.judge_once(c, layers_without(c));
    // Whether it pays in one measurement depends on what the machine does meanwhile.
    for (int i = 1; i < most_judgements && gains_speed(c) && !pays(v, c); ++i)
      v = weakened.judge_once(c, layers_without(c));
    CAPTURE(v.reason);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == name_of(verdict_kind::ok));
    if (gains_speed(c)) {
      MESSAGE(file, " claims ", v.speedup_e2.value_or(0), " hundredths without its layers");
      CHECK(pays(v, c));
    }
    ++seen;
  }
  CHECK(seen >= 20);
}

TEST_CASE("each of several layers catches a hostile candidate without the others") {
  const auto m = manifest();
  weakened_pipeline weakened;
  int seen = 0;
  for (const auto& c : m["candidates"]) {
    if (!c.contains("alone") || !is_judged_here(c)) continue;
    for (const auto& [layer, end] : c["alone"].items()) {
      const std::string file = c["file"];
      CAPTURE(file);
      CAPTURE(layer);
      const auto without = layers_without(c, layer);
      auto v = weakened.judge_once(c, without);
      // Whether two threads run at the same time depends on what else the machine does.
      for (int i = 1;
           i < most_judgements_of_threads && c.contains("cores") && !is_caught(v, c, end); ++i)
        v = weakened.judge_once(c, without);
      if (!is_caught(v, c, end) && c.contains("cores") && is_overloaded()) {
        quern::test::skip(file + ": two threads never ran at the same time on a busy machine");
        continue;
      }
      CAPTURE(name_of(v.kind));
      CAPTURE(v.reason);
      CAPTURE(v.detail);
      CHECK(is_caught(v, c, end));
      ++seen;
    }
  }
  CHECK(seen >= 15);
}
