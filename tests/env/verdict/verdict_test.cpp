// Verdicts: golden JSON, names, refusals, and fuzzing of the reader.
#include "env/verdict/verdict.hpp"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "env/verdict/finding.hpp"
#include "support/test.hpp"

using namespace quern;
using env::verdict;
using env::verdict_kind;
using test::contains;

namespace {

std::string golden(std::string_view name) {
  const auto file = test::source_dir() / "tests/golden/verdict" / name;
  return std::string(base::trim(base::read_file(file).value()));
}

std::string error_with(const std::function<void(base::json&)>& change) {
  base::json value = base::parse_json(golden("ok.json")).value();
  change(value);
  const auto parsed = env::verdict_from_json(value);
  return parsed ? "accepted" : parsed.error().message;
}

/// Replaces a random value somewhere in the tree.
void mutate(base::json& value, base::random_stream& random) {
  if (value.is_structured() && !value.empty() && random.chance(0.8)) {
    auto at = value.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random.below(value.size())));
    if (random.chance(0.15))
      value.erase(at);
    else
      mutate(*at, random);
    return;
  }
  switch (random.below(11)) {
    case 0:
      value = nullptr;
      break;
    case 1:
      value = true;
      break;
    case 2:
      value = -1;
      break;
    case 3:
      value = UINT64_MAX;
      break;
    case 4:
      value = 1e300;
      break;
    case 5:
      value = "ok";
      break;
    case 6:
      value = base::json::array({1, "x", nullptr});
      break;
    case 7:
      value = base::json::object({{"quern_verdict", 1}});
      break;
    case 8:
      value = std::string(env::max_verdict_text + 1, 'x');
      break;
    case 9:
      value = "hack";
      break;
    default:
      value = INT64_MIN;
  }
}

}  // namespace

TEST_CASE("golden verdicts read and write to the same bytes") {
  for (const auto* name :
       {"ok.json", "wrong_value.json", "malformed.json", "device.json", "evidence.json"}) {
    CAPTURE(name);
    const auto parsed = env::parse_verdict(golden(name));
    REQUIRE_MESSAGE(parsed.has_value(), parsed.error().message);
    CHECK(base::dump(env::to_json(*parsed)) == golden(name));
    CHECK(env::verdict_from_json(env::to_json(*parsed)).value() == *parsed);
  }
  const verdict ok = env::parse_verdict(golden("ok.json")).value();
  CHECK(ok.kind == verdict_kind::ok);
  CHECK(ok.speedup_e2 == 137);
  CHECK(ok.time->device_ns == 99);
  CHECK(ok.time->ref_ns.size() == 7);
  CHECK(ok.confirmed == true);
  CHECK(ok.checks[1].detail == "2 rounds");
  const verdict wrong = env::parse_verdict(golden("wrong_value.json")).value();
  CHECK(wrong.first_diff->index == std::vector<std::int64_t>{0, 3});
  CHECK(wrong.cached);
}

TEST_CASE("the device's conditions, as they are stored") {
  const verdict v = env::parse_verdict(golden("device.json")).value();
  CHECK(v.claim_e2 == 412);
  REQUIRE(v.device.has_value());
  CHECK(v.device->throttled);
  CHECK(v.device->shared == false);
  REQUIRE(v.device->looks.size() == 2);
  CHECK_FALSE(v.device->looks[0].after);
  CHECK(v.device->looks[1].after);
  CHECK(v.device->looks[1].power_mw == 412000);
  CHECK(v.device->looks[1].throttle == std::vector<std::string>{"sw_power_cap"});
  CHECK(v.device->candidate_sm_mhz == 1965);
  CHECK_FALSE(env::parse_verdict(golden("ok.json"))->device.has_value());
  CHECK(contains(error_with([](base::json& o) { o["device"] = 3; }), "'device'"));
  CHECK(contains(error_with([](base::json& o) {
                   o["device"] = {{"bus_id", "x"}, {"throttled", false}, {"windows_sm_mhz", {1}}};
                 }),
                 "must have 2"));
}

TEST_CASE("evidence, as it is stored, and what of it is refused") {
  const verdict v = env::parse_verdict(golden("evidence.json")).value();
  REQUIRE(v.evidence);
  CHECK(env::share_of(*v.evidence, env::own_kernels).value() == doctest::Approx(8000.0 / 41200));
  CHECK(env::share_of(*v.evidence, "cudnn") == 0.0);
  const std::string text = env::evidence_text(*v.evidence);
  CHECK(contains(text, "cublas 73 %"));
  CHECK(contains(text, "one buffer for all results: yes"));
  CHECK(contains(text, "43.1 % of the roofline"));
  env::evidence_report unknown;
  unknown.unknown = "no CUPTI\x1b[2J";
  CHECK_FALSE(env::share_of(unknown, env::own_kernels));
  CHECK(env::evidence_from_json(env::to_json(unknown)).value() == unknown);
  CHECK_FALSE(contains(env::evidence_text(unknown), "\x1b"));
  const auto refused = [](const char* key, const base::json& value) {
    return error_with([&](base::json& o) { o["evidence"] = {{key, value}}; });
  };
  CHECK(contains(refused("device_ns", -1), "'device_ns' is -1"));
  CHECK(contains(refused("kernels", 3), "'kernels'"));
  CHECK(contains(refused("kernels", base::json::array({1})), "no object"));
  CHECK(contains(refused("kinds", {{"own", "x"}}), "'own'"));
  CHECK(contains(refused("lower_precision", {1}), "no type"));
  CHECK(contains(refused("graphs", 1), "'graphs'"));
  CHECK(contains(refused("unknown", std::string(2000, 'x')), "at most 1024"));
  CHECK(contains(error_with([](base::json& o) { o["evidence"] = 3; }), "'evidence'"));
}

TEST_CASE("a verdict with nothing in it round-trips") {
  const verdict empty;
  CHECK(base::dump(env::to_json(empty)) ==
        R"({"cached":false,"quern_verdict":1,"verdict":"infra_error"})");
  CHECK(env::verdict_from_json(env::to_json(empty)).value() == empty);
}

TEST_CASE("names of verdicts and hacks are a closed, stable list") {
  const std::vector<std::string_view> names{
      "malformed", "rejected_static", "compile_error", "runtime_error",     "timeout",
      "oom",       "wrong_shape",     "wrong_dtype",   "wrong_value",       "nondeterministic",
      "hack",      "noisy",           "unconfirmed",   "invalid_reference", "infra_error",
      "ok",        "unsupported"};
  REQUIRE(names.size() == static_cast<std::size_t>(env::verdict_kind_count));
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(env::name_of(static_cast<verdict_kind>(i)) == names[i]);
    CHECK(env::parse_verdict_kind(names[i]) == static_cast<verdict_kind>(i));
  }
  CHECK_FALSE(env::parse_verdict_kind("OK").has_value());
  std::set<std::string_view> hacks;
  for (int i = 0; i < env::hack_kind_count; ++i) {
    const auto kind = static_cast<env::hack_kind>(i);
    CHECK(hacks.insert(env::name_of(kind)).second);
    CHECK(env::parse_hack_kind(env::name_of(kind)) == kind);
  }
  CHECK_FALSE(env::parse_hack_kind("none").has_value());
}

TEST_CASE("what may be cached and what judges the candidate follows the contract") {
  std::string never_cached;
  std::string no_judgement;
  for (int i = 0; i < env::verdict_kind_count; ++i) {
    const auto kind = static_cast<verdict_kind>(i);
    if (!env::is_cacheable(kind)) never_cached += std::string(env::name_of(kind)) + " ";
    if (!env::judges_candidate(kind)) no_judgement += std::string(env::name_of(kind)) + " ";
  }
  CHECK(never_cached == "timeout noisy unconfirmed invalid_reference infra_error unsupported ");
  CHECK(no_judgement == "noisy unconfirmed invalid_reference infra_error unsupported ");
}

TEST_CASE("wrong verdicts are refused with the reason, unknown fields are not") {
  CHECK(contains(error_with([](auto& v) { v["quern_verdict"] = 2; }),
                 "quern_verdict 2, this program reads version 1"));
  CHECK(contains(error_with([](auto& v) { v.erase("quern_verdict"); }), "quern_verdict"));
  CHECK(contains(error_with([](auto& v) { v["verdict"] = "okay"; }), "no verdict"));
  CHECK(contains(error_with([](auto& v) { v["verdict"] = "wrong_valu"; }),
                 "did you mean 'wrong_value'"));
  CHECK(contains(error_with([](auto& v) { v["verdict"] = "hack"; }), "needs 'kind'"));
  CHECK(contains(error_with([](auto& v) { v.erase("speedup_e2"); }), "needs 'speedup_e2'"));
  CHECK(contains(error_with([](auto& v) { v["speedup_e2"] = -1; }), "at least 0"));
  CHECK(contains(error_with([](auto& v) { v["speedup_e2"] = 1.37; }), "speedup_e2"));
  CHECK(contains(error_with([](auto& v) { v["confirmed"] = "yes"; }), "confirmed"));
  CHECK(contains(error_with([](auto& v) {
                   v["time"]["log_ratio_e9"] = {1, 2};
                 }),
                 "3: low, mid, high"));
  CHECK(contains(error_with([](auto& v) { v["time"]["ref_ns"][0] = 1.5; }), "64-bit integer"));
  CHECK(
      contains(error_with([](auto& v) { v["time"]["ref_ns"][0] = UINT64_MAX; }), "64-bit integer"));
  CHECK(contains(error_with([](auto& v) { v["checks"][0] = 1; }), "no object"));
  CHECK(contains(error_with([](auto& v) { v["sandbox"] = "seccomp"; }), "must be a list"));
  CHECK(contains(error_with([](auto& v) { v["compiler"] = 3; }), "must be an object"));
  CHECK(contains(
      error_with([](auto& v) { v["detail"] = std::string(env::max_verdict_text + 1, 'x'); }),
      "at most 65536"));
  CHECK(error_with([](auto& v) { v["from_the_future"] = {1, 2}; }) == "accepted");
  CHECK(error_with([](auto& v) { v.erase("time"), v.erase("speedup_e2"); }) == "accepted");
  CHECK_FALSE(env::parse_verdict("[1]").has_value());
  CHECK_FALSE(env::parse_verdict("").has_value());
}

TEST_CASE("one line says what matters") {
  CHECK(env::summary(env::parse_verdict(golden("ok.json")).value()) == "ok 1.37x, confirmed");
  CHECK(env::summary(env::parse_verdict(golden("wrong_value.json")).value()) ==
        "wrong_value, cached: y[0,3] is 0x1.8p+0, should be 0x1p+0");
  CHECK(env::summary(env::parse_verdict(golden("malformed.json")).value()) ==
        "malformed(no_code_block)");
  verdict slow;
  slow.kind = verdict_kind::ok;
  slow.speedup_e2 = 7;
  CHECK(env::summary(slow) == "ok 0.07x");
}

TEST_CASE("mutated verdicts are read or refused, and what is read round-trips") {
  std::vector<base::json> seeds;
  for (const auto* name : {"ok.json", "wrong_value.json", "malformed.json", "device.json"}) {
    seeds.push_back(base::parse_json(golden(name)).value());
  }
  int accepted = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    base::random_stream random(9, "verdict_fuzz", {i});
    base::json value = seeds[random.below(seeds.size())];
    for (auto edits = 1 + random.below(3); edits > 0; --edits)
      mutate(value, random);
    const auto parsed = env::verdict_from_json(value);
    if (!parsed) {
      REQUIRE(!parsed.error().message.empty());
      continue;
    }
    ++accepted;
    REQUIRE(env::verdict_from_json(env::to_json(*parsed)).value() == *parsed);
  }
  CHECK(accepted > 500);
  CHECK(accepted < 19000);
}

TEST_CASE("random bytes are refused") {
  const std::string alphabet = R"({}[]",:0123456789truefalsenullverdictok )";
  for (std::uint64_t i = 0; i < 20000; ++i) {
    base::random_stream random(10, "verdict_bytes", {i});
    std::string text;
    for (auto left = random.below(60); left > 0; --left) {
      text += random.chance(0.9) ? alphabet[random.below(alphabet.size())]
                                 : static_cast<char>(random.below(256));
    }
    REQUIRE_FALSE(env::parse_verdict(text).has_value());
  }
}

TEST_CASE("what a speed-up is over survives, and is absent where nothing was measured") {
  verdict v = env::parse_verdict(golden("ok.json")).value();
  CHECK_FALSE(v.baseline);
  v.baseline = env::baseline_report{"graph", "ATen, TF32 off"};
  CHECK(env::verdict_from_json(env::to_json(v)).value() == v);
  CHECK(contains(error_with([](base::json& o) { o["baseline"] = "graph"; }), "'baseline'"));
}

TEST_CASE("a finding without a time has found nothing wrong; any other but ok has") {
  for (const auto kind : {env::verdict_kind::ok, env::verdict_kind::noisy})
    CHECK(env::finding{kind, "", "", std::nullopt}.right());
  for (const auto kind : {env::verdict_kind::wrong_value, env::verdict_kind::hack,
                          env::verdict_kind::infra_error, env::verdict_kind::timeout})
    CHECK_FALSE(env::finding{kind, "", "", std::nullopt}.right());
}
