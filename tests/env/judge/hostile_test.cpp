// The hostile candidates of tests/hostile/cpp through the whole pipeline, with the static screen on
// and off; after each of them an honest one must pass as if nothing had happened. And through a
// pipeline without the layers that hold them, which they must get through: else the layer was not
// what held them.
#include <algorithm>
#include <filesystem>

#include "base/file.hpp"
#include "base/json.hpp"
#include "env/judge/evaluator.hpp"
#include "env/task/task_codec.hpp"
#include "layers_off.hpp"
#include "support/test.hpp"

using namespace quern::env;
namespace base = quern::base;

namespace {

const std::filesystem::path folder = quern::test::source_dir() / "tests/hostile/cpp";

constexpr int most_again = 8;
/// This suite is about what is let through, not about how precisely it is timed: a busy machine
/// must not turn an honest kernel into `noisy`. The widest that an evaluator takes.
constexpr double noise_limit = 0.5;
/// More than one outcome is right for so many candidates at most, each with its reason.
constexpr int most_races = 8;

/// `of`: a candidate of the manifest, which may name other limits.
std::unique_ptr<evaluator> open(bool screen, bool locked = true,
                                const base::json& of = base::json::object()) {
  evaluator_options o;
  o.runner_program =
      quern::test::program_dir() / (locked ? "quern-runner" : "quern-runner-unlocked");
  o.reference_program = quern::test::program_dir() / "quern-torch";
  o.sandbox_required = false;
  o.static_screen = screen;
  o.call_cpu_s = of.value("call_cpu_s", 1.0);
  o.time_budget_s = of.value("budget_s", 0.1);
  o.noise_limit = of.value("noise_limit", noise_limit);
  return evaluator::open(o).value();
}

base::json manifest() {
  return base::parse_json(base::read_file(folder / "manifest.json").value()).value();
}

/// What the manifest, or a candidate of it, names as its task.
std::shared_ptr<const task> subject(const base::json& of) {
  return std::make_shared<const task>(load_task(folder / of["task"].get<std::string>()).value());
}

bool has_limits(const base::json& candidate) {
  return candidate.contains("call_cpu_s") || candidate.contains("budget_s") ||
         candidate.contains("noise_limit");
}

bool for_this_machine(const base::json& candidate) {
  if (!candidate.contains("only")) return true;
#if defined(__x86_64__)
  return candidate["only"] == "x86_64";
#else
  return false;
#endif
}

verdict run(evaluator& with, const std::shared_ptr<const task>& what, const std::string& file,
            bool verify_only) {
  evaluation_request r;
  r.subject = what;
  r.source = base::read_file(folder / file).value();
  r.verify_only = verify_only;
  r.recheck = true;  // never from the cache: the next one has to run
  return with.evaluate(r);
}

void run_all(bool screen) {
  const auto m = manifest();
  const auto what = subject(m);
  const auto with = open(screen);
  REQUIRE(m["candidates"].size() >= 40);
  for (const auto& c : m["candidates"]) {
    const std::string file = c["file"];
    if (!for_this_machine(c)) {
      quern::test::skip(file + " is for " + c["only"].get<std::string>());
      continue;
    }
    const auto on = c.contains("task") ? subject(c) : what;
    const auto own = has_limits(c) ? open(screen, true, c) : nullptr;
    const auto once = [&] { return run(own ? *own : *with, on, file, false); };
    auto v = once();
    // A busy machine is no outcome.
    for (int again = 0; again < most_again && v.kind == verdict_kind::noisy; ++again)
      v = once();
    const std::string got(name_of(v.kind));
    const auto& right = c[screen ? "screen_on" : "screen_off"];
    const auto is = [&](const base::json& want) {
      return want == got || want == got + ":" + v.reason;
    };
    const bool as_expected =
        right.is_array() ? std::any_of(right.begin(), right.end(), is) : is(right);
    CAPTURE(file);
    CAPTURE(got);
    CAPTURE(v.reason);
    CAPTURE(v.detail);
    CHECK(as_expected);
    CHECK((v.kind == verdict_kind::ok || !v.speedup_e2.has_value()));
    if (file == "honest.cpp") continue;
    CHECK((v.kind != verdict_kind::ok || c.contains("pays_at_most_e2")));
    if (v.kind == verdict_kind::ok) {
      MESSAGE(file, " claims ", v.speedup_e2.value_or(0), " hundredths");
      CHECK(v.speedup_e2.value_or(0) <= c.value("pays_at_most_e2", std::int64_t{0}));
    }
    const auto next = run(*with, what, "honest.cpp", true);
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
    // Each has a layer without which it passes, or a reason why none is taken away.
    CHECK((c.contains("without") || c.contains("exempt") || c["screen_off"] == "ok"));
  }
  CHECK(races <= most_races);
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
    const auto on = subject(c.contains("task") ? c : m);
    const auto own = has_limits(c) ? open(false, lock, c) : nullptr;
    auto& with = own ? *own : lock ? *locked : *unlocked;
    verdict v;
    for (int again = 0; again < most_again; ++again) {
      v = run(with, on, file, c.value("verified", false));
      if (v.kind != verdict_kind::noisy) break;
    }
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
