// The hostile candidates of tests/hostile/cpp through the whole pipeline, with the static screen on
// and off; after each of them that ran, an honest one must pass as if nothing had happened.
#include "env/judge/compile_pool.hpp"
#include "hostile_suite.hpp"

using namespace quern::test::hostile;

namespace {

/// More than one outcome is right for so many candidates at most, each with its reason.
constexpr int most_races = 8;

void run_all(bool screen) {
  const auto m = manifest();
  const auto common = subject(m);
  const auto shared = open(screen);
  compile_pool ahead(*shared, 1);
  std::vector<quern::base::json> candidates;
  for (const auto& c : m["candidates"])
    if (gains_speed(c))
      continue;  // it needs a clock: hostile_controls_test.cpp
    else if (for_this_machine(c))
      candidates.push_back(c);
    else
      quern::test::skip(c["file"].get<std::string>() + " is for " + c["only"].get<std::string>());
  REQUIRE(candidates.size() >= 40);
  const auto request_of = [&](const quern::base::json& c) {
    return request_for(c.contains("task") ? subject(c) : common, c["file"], false);
  };
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto& c = candidates[i];
    if (i + 1 < candidates.size() && !has_limits(candidates[i + 1]))
      ahead.add(request_of(candidates[i + 1]));
    const std::string file = c["file"];
    const auto own = has_limits(c) ? open(screen, true, c) : nullptr;
    const auto v = judge(own ? *own : *shared, request_of(c));
    CAPTURE(file);
    CAPTURE(name_of(v.kind));
    CAPTURE(v.reason);
    CAPTURE(v.detail);
    CHECK(is_right(v, c[screen ? "screen_on" : "screen_off"]));
    CHECK((v.kind == verdict_kind::ok || !v.speedup_e2.has_value()));
    if (file == "honest.cpp" || v.kind == verdict_kind::rejected_static) continue;
    CHECK(v.kind != verdict_kind::ok);
    const auto next = judge(*shared, request_for(common, "honest.cpp", true));
    CAPTURE(next.detail);
    CHECK(next.kind == verdict_kind::ok);
  }
  for (const auto& path : m["must_not_exist"])
    CHECK_FALSE(std::filesystem::exists(path.get<std::string>()));
}

}  // namespace

TEST_CASE("hostile candidates, static screen on") {
  run_all(true);
}

TEST_CASE("hostile candidates, static screen off: the sandbox and the checks alone") {
  run_all(false);
}

TEST_CASE("hostile candidates: one outcome each, or a reason why there may be another") {
  int races = 0;
  const auto m = manifest();
  for (const auto& c : m["candidates"]) {
    CAPTURE(c["file"].get<std::string>());
    for (const char* setting : {"screen_on", "screen_off"}) {
      if (!c[setting].is_array()) continue;
      CHECK(c[setting].size() > 1);
      CHECK_FALSE(c.value("races", "").empty());
    }
    races += c.contains("races") ? 1 : 0;
  }
  CHECK(races <= most_races);
}
