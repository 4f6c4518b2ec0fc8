// Modules that are wrong or hostile on a GPU, and what gets through without the layer that stops
// them.
#include <algorithm>
#include <set>
#include <stdexcept>

#include "device_fixture.hpp"
#include "tests/env/gpu/layer_switches.hpp"
#include "tests/env/pytorch/judge/bad_candidates.hpp"
#include "tools/benchmarks/bench_pytorch/module_files.hpp"

using namespace quern::test;
using namespace quern::test::modules;
using quern::env::check_layer;
namespace tools = quern::tools;
using enum quern::env::verdict_kind;

namespace {

check_layer device_layer_of(const std::string& name) {
  const auto* const at = std::find(std::begin(quern::env::check_layer_names),
                                   std::end(quern::env::check_layer_names), name);
  REQUIRE(at != std::end(quern::env::check_layer_names));
  return static_cast<check_layer>(at - std::begin(quern::env::check_layer_names));
}

/// The candidates of tests/hostile/pytorch that a GPU can be asked about.
std::vector<tools::hostile_module> device_hostiles() {
  auto all = tools::read_hostile_modules(
      source_dir(), {std::filesystem::temp_directory_path().string(), listening_port()});
  CAPTURE(all ? "" : all.error().message);
  REQUIRE(all);
  std::erase_if(*all, [](const tools::hostile_module& one) { return !one.on_gpus; });
  return std::move(*all);
}

std::string hostile_source(const std::string& name) {
  for (const tools::hostile_module& one : device_hostiles())
    if (one.name == name) return one.source;
  throw std::logic_error("tests/hostile/pytorch has no " + name);
}

}  // namespace

TEST_CASE(
    "what is wrong, malformed or hostile is so on a GPU, and gets through without its layer") {
  if (device_judge() == nullptr) return;
  const auto subject = task_of(wide());
  int tried = 0, with_control = 0;
  for (const tools::hostile_module& one : device_hostiles()) {
    if (one.only_timed) continue;
    CAPTURE(one.name);
    const verdict v = judged_on_device(one.source, false, subject);
    CAPTURE(name_of(v.kind));
    CAPTURE(v.detail);
    const bool may_be_ok = std::find(one.caught.begin(), one.caught.end(), ok) != one.caught.end();
    CHECK((tools::is_own_fault(v.kind) || (may_be_ok && v.kind == ok)));
    CHECK_FALSE(v.speedup_e2.has_value());
    ++tried;
    if (one.without_on_gpu.empty()) continue;
    for (const std::string& layer : one.without_on_gpu)
      turn(device_layer_of(layer), false);
    const verdict through = judged_on_device(one.source, false, subject);
    for (const std::string& layer : one.without_on_gpu)
      turn(device_layer_of(layer), true);
    CAPTURE(through.detail);
    CHECK(name_of(through.kind) == "ok");
    ++with_control;
  }
  MESSAGE(tried << " kinds, " << with_control << " with a control");
}

TEST_CASE("a module that answers before its work is done gains nothing by it") {
  if (device_judge() == nullptr) return;
  const auto subject = task_of(wide());
  // Hundred times the work, in one launch, and an answer that does not wait for it.
  const std::string early = hostile_source("answers_early");
  const auto gains = [](const verdict& v) { return v.kind == ok && v.speedup_e2.value_or(0) > 60; };
  const verdict v = judged_on_device(early, true, subject);
  CAPTURE(name_of(v.kind));
  CAPTURE(v.detail);
  CAPTURE(v.speedup_e2.value_or(-1));
  CHECK_FALSE(gains(v));
  // The control, with less of it: what is left behind a window would delay the next one of the
  // reference, whose times then differ too much for any verdict.
  std::string sooner = early;
  const std::string_view size = "8192, 8192";
  REQUIRE(contains(sooner, size));
  sooner.replace(sooner.find(size), size.size(), "2048, 2048");
  CHECK_FALSE(gains(judged_on_device(sooner, true, subject)));
  const auto layers = {check_layer::charge, check_layer::values, check_layer::floor,
                       check_layer::sample};
  for (const auto layer : layers)
    turn(layer, false);
  const verdict through = judged_on_device(sooner, true, subject);
  for (const auto layer : layers)
    turn(layer, true);
  CAPTURE(name_of(through.kind));
  CAPTURE(through.detail);
  CHECK(gains(through));
}

TEST_CASE("what only timed calls show is caught there, and not without its layer") {
  if (device_judge() == nullptr) return;
  std::set<std::string> layers;
  for (const tools::hostile_module& one : device_hostiles()) {
    if (!one.only_timed || one.without_on_gpu.empty()) continue;
    CAPTURE(one.name);
    const auto subject = task_of(one.is_small ? layered : wide());
    const verdict v = judged_on_device(one.source, true, subject);
    CAPTURE(v.detail);
    CHECK(std::find(one.caught.begin(), one.caught.end(), v.kind) != one.caught.end());
    CHECK((v.kind != ok || v.speedup_e2.value_or(0) <= 105));
    for (const std::string& layer : one.without_on_gpu)
      turn(device_layer_of(layer), false);
    const verdict through = judged_on_device(one.source, true, subject);
    for (const std::string& layer : one.without_on_gpu)
      turn(device_layer_of(layer), true);
    CAPTURE(through.detail);
    CHECK(name_of(through.kind) == "ok");
    MESSAGE(one.name << " without its layer: " << through.speedup_e2.value_or(-1) << " / 100");
    // What waits for its inputs is right then, but slow for other reasons.
    CHECK((through.speedup_e2.value_or(0) > 110 || one.name == "waits_for_inputs"));
    layers.insert(one.without_on_gpu.begin(), one.without_on_gpu.end());
  }
  CHECK(layers == std::set<std::string>{"late", "pause", "sample", "still"});
}

TEST_CASE("what answers early, does not wake or delays deliveries gains nothing by it") {
  if (device_judge() == nullptr) return;
  const auto gain = [](const char* name, const std::string& protocol,
                       const std::string& task = layered) {
    const verdict v = judged_on_device(hostile_source(name), true, task_of(task), protocol);
    CAPTURE(name);
    CAPTURE(name_of(v.kind));
    CAPTURE(v.detail);
    MESSAGE(name << " under " << protocol << ": " << v.speedup_e2.value_or(-1) << " / 100");
    return v.kind == ok && v.speedup_e2.value_or(0) > 105;
  };
  for (const char* name : {"answers_early_but_last", "does_not_wake", "delays_deliveries"})
    CHECK_FALSE(gain(name, "paired/1"));
  CHECK_FALSE(gain("delays_deliveries", "kernelbench/1"));
  // A window of one call has no samples: what is not done is told by the copy behind it alone.
  for (const std::string& task : {std::string(layered), std::string(wide())})
    for (const char* protocol : {"paired/1", "kernelbench/1"})
      CHECK_FALSE(gain("answers_without_waiting", protocol, task));
}

TEST_CASE("a module that keeps the device busy or takes its memory harms nobody behind it") {
  if (device_judge() == nullptr) return;
  for (const char* name : {"busy_for_seconds", "takes_all_memory"}) {
    CAPTURE(name);
    (void)judged_on_device(hostile_source(name), false, task_of(wide()));
    CHECK(name_of(judged_on_device(candidate(honest)).kind) == "ok");
  }
}
