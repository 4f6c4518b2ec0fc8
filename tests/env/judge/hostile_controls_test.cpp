// The hostile candidates of tests/hostile/cpp through a pipeline without the layers that hold them,
// which they must get through: else the layer was not what held them. Some gain nothing but speed,
// so nothing may run beside this test.
#include <vector>

#include "hostile_suite.hpp"
#include "layers_off.hpp"

using namespace quern::test::hostile;

namespace {

bool pays(const verdict& v, const quern::base::json& candidate) {
  return v.speedup_e2.value_or(0) > candidate["pays_at_most_e2"].get<std::int64_t>();
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

TEST_CASE("hostile candidates get what they want without the layer that holds them") {
  const auto m = manifest();
  const auto locked = open(false), unlocked = open(false, false);
  int seen = 0;
  for (const auto& c : m["candidates"]) {
    if (!c.contains("without") || !for_this_machine(c)) continue;
    const std::string file = c["file"];
    CAPTURE(file);
    std::vector<judge_layer> layers;
    bool lock = true;
    for (const auto& name : c["without"])
      if (name == "lock")
        lock = false;
      else
        layers.push_back(quern::test::layer_named(name.get<std::string>()));
    const quern::test::without_layers off(layers);
    const auto own = has_limits(c) ? open(false, lock, c) : nullptr;
    auto& judging = own ? *own : lock ? *locked : *unlocked;
    const auto request =
        request_for(subject(c.contains("task") ? c : m), file, c.value("verified", false));
    auto v = judge(judging, request);
    // Whether it pays in one measurement depends on what the machine does meanwhile.
    for (int i = 1; i < most_judgements && gains_speed(c) && !pays(v, c); ++i)
      v = judge(judging, request);
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
