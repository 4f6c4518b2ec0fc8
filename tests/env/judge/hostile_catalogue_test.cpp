// The catalogue of lane cpp's hostile candidates holds together: each layer is what decides over
// one of them, each proof has the form that hostile_controls_test.cpp judges, and docs/integrity.md
// counts them.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "env/judge/judge_layer.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

constexpr std::size_t least_reason = 20;
constexpr const char* kinds_of_proof[] = {"without", "attempt", "hidden_by", "exempt"};

base::json hostile_manifest() {
  const auto path = test::source_dir() / "tests/hostile/cpp/manifest.json";
  return base::parse_json(base::read_file(path).value()).value();
}

/// Names that `without` may have.
std::set<std::string> layer_names() {
  std::set<std::string> names(std::begin(env::judge_layer_names), std::end(env::judge_layer_names));
  names.insert("lock");
  return names;
}

/// Layers that nothing else holds a candidate than, in one judgement at least: it gets through
/// without the layer, and is caught with it.
std::set<std::string> deciding_layers(const base::json& manifest) {
  std::set<std::string> deciding;
  for (const auto& c : manifest.at("candidates")) {
    const auto without = c.value("without", std::vector<std::string>{});
    if (without.size() == 1) deciding.insert(without.front());
    const auto alone = c.value("alone", base::json::object());
    for (const auto& [layer, end] : alone.items())
      deciding.insert(layer);
  }
  return deciding;
}

/// What is wrong with the proofs of a manifest; empty: nothing.
std::vector<std::string> faults_of_proofs(const base::json& manifest) {
  std::vector<std::string> faults;
  for (const auto& c : manifest.at("candidates")) {
    const auto file = c.at("file").get<std::string>();
    const auto fault = [&](std::string text) { faults.push_back(file + ": " + std::move(text)); };
    if (file == "honest.cpp") continue;
    if (std::count_if(std::begin(kinds_of_proof), std::end(kinds_of_proof),
                      [&](const char* kind) { return c.contains(kind); }) != 1)
      fault("it needs one of without, attempt, hidden_by and exempt");
    if (c.contains("exempt") && c.at("exempt").get<std::string>().size() < least_reason)
      fault("exempt without a reason");
    const auto without = c.value("without", std::vector<std::string>{});
    const auto alone = c.value("alone", base::json::object());
    const auto not_alone = c.value("not_alone", base::json::object());
    for (const auto& layer : without) {
      if (!layer_names().contains(layer)) fault("unknown layer " + layer);
      if (without.size() > 1 && alone.contains(layer) == not_alone.contains(layer))
        fault(layer + " needs one of alone and not_alone");
    }
    for (const auto* told : {&alone, &not_alone})
      for (const auto& [layer, value] : told->items())
        if (without.size() < 2 || std::find(without.begin(), without.end(), layer) == without.end())
          fault(layer + " is none of several that are taken away");
    for (const auto& [layer, end] : alone.items())
      if (end == "ok" && !c.contains("pays_at_most_e2")) fault(layer + " does not catch it");
    for (const auto& [layer, reason] : not_alone.items())
      if (reason.get<std::string>().size() < least_reason) fault(layer + " has no reason");
  }
  return faults;
}

/// How many hostile candidates there are, and how many have each kind of proof.
std::map<std::string, int> counts_of_proofs(const base::json& manifest) {
  std::map<std::string, int> counts;
  for (const auto& c : manifest.at("candidates")) {
    if (c.at("file") == "honest.cpp") continue;
    ++counts["all"];
    for (const char* kind : kinds_of_proof)
      counts[kind] += c.contains(kind) ? 1 : 0;
    counts["alone"] += static_cast<int>(c.value("alone", base::json::object()).size());
  }
  return counts;
}

}  // namespace

TEST_CASE("lane cpp: each layer decides over a hostile candidate") {
  auto missing = layer_names();
  for (const auto& layer : deciding_layers(hostile_manifest()))
    missing.erase(layer);
  // Shown with modules (tests/env/pytorch/judge/hostile_test.cpp): kernels of this lane share
  // nothing between calls that a batch of them would spare.
  missing.erase("unseen_inputs");
  for (const auto& layer : missing)
    FAIL_CHECK(layer);
  CHECK(missing.empty());
}

TEST_CASE("lane cpp: a layer that goes only with others decides nothing") {
  const auto manifest = base::parse_json(R"({"candidates": [
    {"file": "a.cpp", "without": ["values", "repeats"], "alone": {"values": "wrong_value"}},
    {"file": "b.cpp", "without": ["floor"]}]})");
  CHECK(deciding_layers(manifest.value()) == std::set<std::string>{"floor", "values"});
}

TEST_CASE("lane cpp: each hostile candidate is proven, and each of several layers alone") {
  const auto faults = faults_of_proofs(hostile_manifest());
  for (const auto& fault : faults)
    FAIL_CHECK(fault);
  CHECK(faults.empty());
}

TEST_CASE("lane cpp: what is wrong with a proof is told") {
  const auto with = [](const char* text) {
    base::json manifest;
    manifest["candidates"] = base::json::array({base::parse_json(text).value()});
    return faults_of_proofs(manifest);
  };
  using faults = std::vector<std::string>;
  CHECK(with(R"({"file": "a", "without": ["values"]})").empty());
  CHECK(with(R"({"file": "a"})") ==
        faults{"a: it needs one of without, attempt, hidden_by and exempt"});
  CHECK(with(R"({"file": "a", "exempt": "so", "without": ["values"]})") ==
        faults{"a: it needs one of without, attempt, hidden_by and exempt",
               "a: exempt without a reason"});
  CHECK(with(R"({"file": "a", "without": ["hope"]})") == faults{"a: unknown layer hope"});
  CHECK(
      with(
          R"({"file": "a", "without": ["values", "floor"], "alone": {"values": "wrong_value"}})") ==
      faults{"a: floor needs one of alone and not_alone"});
  CHECK(with(R"({"file": "a", "without": ["values"], "alone": {"values": "wrong_value"}})") ==
        faults{"a: values is none of several that are taken away"});
  CHECK(with(R"({"file": "a", "without": ["values", "floor"],
                 "alone": {"values": "ok"}, "not_alone": {"floor": "so"}})") ==
        faults{"a: values does not catch it", "a: floor has no reason"});
}

TEST_CASE("docs/integrity.md counts the proofs of lane cpp as the manifest has them") {
  const auto text = base::read_file(test::source_dir() / "docs/integrity.md", 1U << 20U).value();
  const auto counts = counts_of_proofs(hostile_manifest());
  const auto sentence = fmt::format(
      "Of {} hostile candidates {} have controls, {} an attempt, {} read a file that is hidden, "
      "and "
      "{} are exempt; layers are judged alone {} times.",
      counts.at("all"), counts.at("without"), counts.at("attempt"), counts.at("hidden_by"),
      counts.at("exempt"), counts.at("alone"));
  CHECK_MESSAGE(text.find(sentence) != std::string::npos, "it should say: ", sentence);
}
