// The hostile candidates of tests/hostile/cpp through a pipeline without the layers that hold them,
// which they must get through: else the layer was not what held them. Some gain nothing but speed,
// so nothing may run beside this test.
#include <vector>

#include "hostile_suite.hpp"
#include "layers_off.hpp"

using namespace quern::test::hostile;

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
    const auto v = judge(judging, request_for(subject(c.contains("task") ? c : m), file,
                                              c.value("verified", false)));
    CAPTURE(v.reason);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == name_of(verdict_kind::ok));
    if (c.contains("pays_at_most_e2")) {
      MESSAGE(file, " claims ", v.speedup_e2.value_or(0), " hundredths without its layers");
      CHECK(v.speedup_e2.value_or(0) > c["pays_at_most_e2"].get<std::int64_t>());
    }
    ++seen;
  }
  CHECK(seen >= 20);
}
