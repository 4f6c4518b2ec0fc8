// The catalogue of lane cuda's hostile candidates holds together: files,
// tests/hostile/cuda/manifest.json and the table of docs/integrity.md name the same candidates, and
// `ok` stands only where it must.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "env/gpu/check_layer.hpp"
#include "env/task/task_codec.hpp"
#include "env/verdict/verdict.hpp"
#include "support/test.hpp"

using namespace quern;
namespace fs = std::filesystem;

namespace {

const fs::path hostile_folder = test::source_dir() / "tests/hostile/cuda";

base::json hostile_manifest() {
  return base::parse_json(base::read_file(hostile_folder / "manifest.json").value()).value();
}

struct table_row {
  std::set<std::string> plan, host_entry;
};

/// "`a` `b`* –" to {a, b}.
std::set<std::string> names_in(std::string_view cell) {
  std::set<std::string> names;
  const auto parts = base::split(cell, '`');
  for (std::size_t i = 1; i < parts.size(); i += 2)
    names.emplace(parts[i]);
  return names;
}

/// The table of classes: rows that begin with a number.
std::map<int, table_row> table_of(std::string_view text) {
  std::map<int, table_row> rows;
  for (const auto line : base::split(text, '\n')) {
    const auto cells = base::split(line, '|');
    if (cells.size() != 8) continue;
    const std::string number(base::trim(cells[1]));
    if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) continue;
    rows[std::stoi(number)] = {names_in(cells[5]), names_in(cells[6])};
  }
  return rows;
}

std::string short_name(const std::string& file) {
  return fs::path(file).stem().string();
}

/// What the table says that the manifest does not, and the other way round.
std::vector<std::string> disagreements(const std::map<int, table_row>& rows,
                                       const base::json& manifest) {
  std::set<std::tuple<int, std::string, std::string>> told, meant;
  for (const auto& [number, row] : rows) {
    for (const auto& name : row.plan)
      told.emplace(number, "device_only", name);
    for (const auto& name : row.host_entry)
      told.emplace(number, "host_entry", name);
  }
  for (const auto& c : manifest.at("candidates"))
    for (const auto& number : c.at("class"))
      meant.emplace(number.get<int>(), c.at("form").get<std::string>(),
                    short_name(c.at("file").get<std::string>()));
  std::vector<std::tuple<int, std::string, std::string>> differ;
  std::set_symmetric_difference(told.begin(), told.end(), meant.begin(), meant.end(),
                                std::back_inserter(differ));
  std::vector<std::string> texts;
  for (const auto& [number, form, name] : differ)
    texts.push_back(fmt::format("class {}: {} ({})", number, name, form));
  return texts;
}

constexpr const char* settings[] = {"screen", "no_screen", "as_host"};
constexpr std::size_t most_races = 20;

/// Everything that some setting of a candidate may end with.
std::vector<std::string> outcomes_of(const base::json& candidate) {
  std::vector<std::string> all;
  const auto race = candidate.value("race", base::json::object());
  for (const char* setting : settings) {
    const auto wanted = candidate.at("want").value(setting, base::json());
    if (wanted.is_string()) all.push_back(wanted);
    for (const auto& one : race.value(setting, base::json::array()))
      all.push_back(one);
  }
  return all;
}

bool lists_ok(const base::json& candidate) {
  const auto all = outcomes_of(candidate);
  return std::find(all.begin(), all.end(), "ok") != all.end();
}

/// "ok", "timeout", "hack:overrun": what a verdict's kind and reason can be.
bool is_an_outcome(const std::string& text) {
  const auto parts = base::split(text, ':');
  const std::string kind(parts[0]);
  if (kind == "hack") return parts.size() == 2 && env::parse_hack_kind(parts[1]).has_value();
  return parts.size() == 1 && env::parse_verdict_kind(kind).has_value();
}

/// What is wrong with the form of a manifest's outcomes; empty: nothing.
std::vector<std::string> faults_of_form(const base::json& manifest) {
  std::vector<std::string> faults;
  std::size_t races = 0;
  for (const auto& c : manifest.at("candidates")) {
    const std::string name = short_name(c.at("file").get<std::string>());
    const auto fault = [&](std::string text) { faults.push_back(name + ": " + std::move(text)); };
    const auto race = c.value("race", base::json::object());
    races += race.empty() ? 0 : 1;
    if (!race.empty() && race.value("why", "").size() < 20) fault("a race without a reason");
    for (const char* setting : settings) {
      const bool needed = std::string(setting) != "as_host" || c.value("also_as_host_entry", false);
      const bool wanted = c.at("want").contains(setting), raced = race.contains(setting);
      if (needed && !wanted && !raced) fault(std::string("no outcome for ") + setting);
      if (!needed && (wanted || raced)) fault(std::string("an outcome for ") + setting);
      if (wanted && raced) fault(std::string("two kinds of outcome for ") + setting);
      if (wanted && !c.at("want").at(setting).is_string())
        fault(std::string("more than one outcome for ") + setting);
      if (raced && race.at(setting).size() < 2) fault("a race with one outcome");
    }
    for (const auto& [setting, ignored] : c.at("want").items())
      if (std::find(std::begin(settings), std::end(settings), setting) == std::end(settings))
        fault("unknown setting " + setting);
    for (const auto& outcome : outcomes_of(c))
      if (!is_an_outcome(outcome)) fault("no outcome: " + outcome);
    if (race.empty())
      for (const auto& outcome : outcomes_of(c))
        if (outcome == "noisy" || outcome == "unconfirmed" || outcome == "infra_error")
          fault("no verdict as a verdict: " + outcome);
    if (c.contains("exempt") && c.at("exempt").get<std::string>().size() < 20)
      fault("exempt without a reason");
    if (!c.contains("control")) continue;
    const auto& control = c.at("control");
    if (control.at("without").empty()) fault("a control that takes nothing away");
    for (const auto& layer : control.at("without"))
      if (std::find(std::begin(env::check_layer_names), std::end(env::check_layer_names),
                    layer.get<std::string>()) == std::end(env::check_layer_names))
        fault("unknown layer " + layer.get<std::string>());
    const auto gets = control.at("gets").get<std::string>();
    if (gets != "pays" && !is_an_outcome(gets)) fault("no outcome: " + gets);
    // With its layers it must end otherwise, or the control shows nothing; `ok` that pays is
    // another end than `ok` that does not.
    const bool as_host = control.value("as_host", false);
    if (as_host && !c.value("also_as_host_entry", false)) fault("a control in a form it has not");
    // Where a layer keeps it from acting at all, the end shows once that is taken away and another
    // one is left.
    const auto alone = control.value("alone", base::json::object());
    if (alone.empty() && c.at("want").value(as_host ? "as_host" : "no_screen", "") == gets)
      fault("a control that gets what it had");
    for (const auto& [layer, end] : alone.items()) {
      const auto& without = control.at("without");
      if (without.size() < 2 || std::find(without.begin(), without.end(), layer) == without.end())
        fault(layer + " is none of several that are taken away");
      if (end == gets || end == "ok" || (end == "unpaid" && gets != "pays"))
        fault(layer + " alone does not catch it");
      if (end != "unpaid" && !is_an_outcome(end.get<std::string>()))
        fault("no outcome: " + end.get<std::string>());
    }
    if (gets == "pays" && !c.contains("twin")) fault("nothing to compare its speed with");
    if (gets == "pays" && control.value("verified", false)) fault("a claim that is not timed");
  }
  if (races > most_races) faults.push_back(fmt::format("{} races", races));
  return faults;
}

constexpr const char* kinds_of_proof[] = {"control", "attempt", "exempt"};

/// How many hostile files have a control, an attempt or an exemption, and how many there are.
std::map<std::string, int> counts_of_proofs(const base::json& manifest) {
  std::map<std::string, int> counts;
  for (const auto& c : manifest.at("candidates")) {
    if (c.value("legal", false)) continue;
    ++counts["all"];
    for (const char* kind : kinds_of_proof)
      counts[kind] += c.contains(kind) ? 1 : 0;
  }
  return counts;
}

/// Layers over which a judgement decides: a candidate ends otherwise without the layer than with
/// it, whatever others are off in both.
std::set<std::string> deciding_layers(const base::json& manifest) {
  std::set<std::string> deciding;
  for (const auto& c : manifest.at("candidates")) {
    if (!c.contains("control")) continue;
    const auto& control = c.at("control");
    const auto without = control.at("without").get<std::vector<std::string>>();
    if (without.size() == 1) deciding.insert(without.front());
    const auto alone = control.value("alone", base::json::object());
    for (const auto& [layer, end] : alone.items()) {
      deciding.insert(layer);
      // Of two, the other one alone is off there: it decides if all on end otherwise.
      const auto& other = without.front() == layer ? without.back() : without.front();
      if (without.size() == 2 && c.contains("want") && end != "unpaid" &&
          c.at("want").value("no_screen", "") != end)
        deciding.insert(other);
    }
  }
  return deciding;
}

/// Layers without which alone a hostile module of lane `pytorch` is `ok` on a GPU: its head says
/// so, and tests/env/pytorch/gpu/hostile_on_gpu_test.cpp shows it.
std::set<std::string> layers_of_modules() {
  constexpr std::string_view key = "# on a GPU without: ";
  std::set<std::string> deciding;
  for (const auto& file : fs::directory_iterator(test::source_dir() / "tests/hostile/pytorch")) {
    if (file.path().extension() != ".py") continue;
    const std::string text = base::read_file(file.path()).value();
    for (const std::string_view line : base::split(text, '\n'))
      if (line.starts_with(key) && line.find(',') == line.npos)
        deciding.emplace(line.substr(key.size()));
  }
  return deciding;
}

/// Hostile files whose catch nothing proves, or for which two things claim to.
std::vector<std::string> faults_of_proofs(const base::json& manifest) {
  std::vector<std::string> faults;
  for (const auto& c : manifest.at("candidates")) {
    if (c.value("legal", false)) continue;
    std::vector<std::string> has;
    for (const char* kind : kinds_of_proof)
      if (c.contains(kind)) has.emplace_back(kind);
    if (has.size() == 1) continue;
    faults.push_back(
        fmt::format("{}: {}, it needs one of control, attempt and exempt",
                    short_name(c.at("file").get<std::string>()),
                    has.empty() ? "no proof" : fmt::format("{}", fmt::join(has, " and "))));
  }
  return faults;
}

}  // namespace

TEST_CASE("the manifest has every hostile file once, and no other") {
  std::set<std::string> there, listed;
  for (const auto& entry : fs::recursive_directory_iterator(hostile_folder))
    if (entry.path().extension() == ".cu")
      there.insert(entry.path().lexically_relative(hostile_folder).generic_string());
  const auto manifest = hostile_manifest();
  std::set<std::string> names;
  for (const auto& c : manifest.at("candidates")) {
    const auto file = c.at("file").get<std::string>();
    CAPTURE(file);
    CHECK(listed.insert(file).second);
    // The table names them without their folders.
    CHECK(names.insert(short_name(file)).second);
    const auto task = c.at("task").get<std::string>();
    CHECK_MESSAGE(fs::exists(hostile_folder / task), task);
  }
  CHECK(there == listed);
}

TEST_CASE("the table of docs/integrity.md and the manifest name the same candidates") {
  const auto text = base::read_file(test::source_dir() / "docs/integrity.md", 1U << 20U).value();
  const auto rows = table_of(text);
  const auto manifest = hostile_manifest();
  for (const auto& difference : disagreements(rows, manifest))
    FAIL_CHECK(difference);
  // Every class of the catalogue that native code can do has somebody who does it.
  std::set<int> wanted = {1, 2, 3, 7, 8, 18, 37, 46, 47};
  for (const auto& [first, last] : {std::pair(10, 16), {20, 35}, {40, 43}})
    for (int number = first; number <= last; ++number)
      wanted.insert(number);
  for (const int number : wanted) {
    CAPTURE(number);
    const auto row = rows.find(number);
    REQUIRE(row != rows.end());
    CHECK(row->second.plan.size() + row->second.host_entry.size() > 0);
  }
}

TEST_CASE("a name that one of them has and the other has not is told") {
  const auto text = base::read_file(test::source_dir() / "docs/integrity.md", 1U << 20U).value();
  const auto manifest = hostile_manifest();
  auto rows = table_of(text);
  rows[1].plan.insert("nobody");
  rows[2].host_entry.erase("own_context");
  rows[3].plan.insert("background_thread");
  CHECK(disagreements(rows, manifest) ==
        std::vector<std::string>{"class 1: nobody (device_only)",
                                 "class 2: own_context (host_entry)",
                                 "class 3: background_thread (device_only)"});
}

TEST_CASE("the manifest has one outcome for each setting, but for a few races with their reasons") {
  const auto faults = faults_of_form(hostile_manifest());
  for (const auto& fault : faults)
    FAIL_CHECK(fault);
  CHECK(faults.empty());
}

TEST_CASE("what is wrong with a manifest's outcomes is told") {
  const auto with = [](const char* text) {
    base::json manifest;
    manifest["candidates"] = base::json::array({base::parse_json(text).value()});
    return faults_of_form(manifest);
  };
  using faults = std::vector<std::string>;
  CHECK(with(R"({"file": "a.cu", "want": {"screen": "rejected_static", "no_screen": "ok"}})")
            .empty());
  CHECK(with(R"({"file": "a.cu", "want": {"screen": ["ok", "timeout"], "no_screen": "ok"}})") ==
        faults{"a: more than one outcome for screen"});
  CHECK(with(R"({"file": "a.cu", "want": {"screen": "ok"}})") ==
        faults{"a: no outcome for no_screen"});
  CHECK(with(R"({"file": "a.cu", "want": {"screen": "ok", "no_screen": "hack"}})") ==
        faults{"a: no outcome: hack"});
  CHECK(with(R"({"file": "a.cu", "want": {"screen": "ok", "no_screen": "noisy"}})") ==
        faults{"a: no verdict as a verdict: noisy"});
  CHECK(
      with(R"({"file": "a.cu", "want": {"screen": "ok"}, "race": {"no_screen": ["ok", "oom"]}})") ==
      faults{"a: a race without a reason"});
  CHECK(with(R"({"file": "a.cu", "want": {"screen": "rejected_static", "no_screen": "wrong_value"},
                 "control": {"without": ["values", "hope"], "gets": "wrong_value"}})") ==
        faults{"a: unknown layer hope", "a: a control that gets what it had"});
  CHECK(with(R"({"file": "a.cu", "want": {"screen": "ok", "no_screen": "oom"},
                 "control": {"without": ["values"], "gets": "ok", "as_host": true}})") ==
        faults{"a: a control in a form it has not"});
  CHECK(with(R"({"file": "a.cu", "want": {"screen": "rejected_static", "no_screen": "oom"},
                 "control": {"without": ["values", "floor"], "gets": "ok",
                             "alone": {"memory": "oom", "floor": "ok", "values": "unpaid"}}})") ==
        faults{"a: floor alone does not catch it",
               "a: memory is none of several that are taken away",
               "a: values alone does not catch it"});
  CHECK(with(R"({"file": "a.cu", "want": {"screen": "ok", "no_screen": "oom"},
                 "exempt": "so"})") == faults{"a: exempt without a reason"});
  CHECK(with(R"({"file": "a.cu", "want": {"screen": "ok", "no_screen": "oom"}, "twin": "b.cu",
                 "control": {"without": ["values"], "gets": "pays", "verified": true}})") ==
        faults{"a: a claim that is not timed"});
}

TEST_CASE("each hostile file has a control, an attempt or a reason why it has neither") {
  const auto faults = faults_of_proofs(hostile_manifest());
  for (const auto& fault : faults)
    FAIL_CHECK(fault);
  CHECK(faults.empty());
}

TEST_CASE("a hostile file that nothing proves, or two things, is told; a legal one needs nothing") {
  const auto manifest = base::parse_json(R"({"candidates": [
    {"file": "legal.cu", "legal": true}, {"file": "none.cu"}, {"file": "one.cu", "exempt": "so"},
    {"file": "two.cu", "attempt": "kill", "control": {}}]})");
  CHECK(faults_of_proofs(manifest.value()) ==
        std::vector<std::string>{
            "none: no proof, it needs one of control, attempt and exempt",
            "two: control and attempt, it needs one of control, attempt and exempt"});
  CHECK(counts_of_proofs(manifest.value()) ==
        std::map<std::string, int>{{"all", 3}, {"attempt", 1}, {"control", 1}, {"exempt", 1}});
}

TEST_CASE("docs/integrity.md counts controls, attempts and exemptions as the manifest has them") {
  const auto text = base::read_file(test::source_dir() / "docs/integrity.md", 1U << 20U).value();
  const auto counts = counts_of_proofs(hostile_manifest());
  const auto sentence = fmt::format(
      "Of {} hostile files {} have a control, {} an attempt (below), and {} are exempt.",
      counts.at("all"), counts.at("control"), counts.at("attempt"), counts.at("exempt"));
  CHECK_MESSAGE(text.find(sentence) != std::string::npos, "it should say: ", sentence);
}

TEST_CASE("each layer decides over a hostile candidate") {
  std::set<std::string> missing(std::begin(env::check_layer_names),
                                std::end(env::check_layer_names));
  for (const auto& layers : {deciding_layers(hostile_manifest()), layers_of_modules()})
    for (const auto& layer : layers)
      missing.erase(layer);
  for (const auto& layer : missing)
    FAIL_CHECK(layer);
  CHECK(missing.empty());
}

TEST_CASE("a layer that is taken away only with others, and never left alone, decides nothing") {
  const auto manifest = base::parse_json(R"({"candidates": [
    {"file": "a.cu", "control": {"without": ["values", "floor"], "gets": "ok"}},
    {"file": "b.cu", "want": {"no_screen": "wrong_value"},
     "control": {"without": ["charge", "again", "memory"], "gets": "ok", "alone": {"again": "unconfirmed"}}},
    {"file": "c.cu", "want": {"no_screen": "ok"},
     "control": {"without": ["filter", "threads"], "gets": "ok", "alone": {"threads": "hack:leftover_work"}}},
    {"file": "d.cu", "control": {"without": ["poison"], "gets": "ok"}}]})");
  CHECK(deciding_layers(manifest.value()) ==
        std::set<std::string>{"again", "filter", "poison", "threads"});
}

TEST_CASE("`ok` stands only for what is legal, or bounded by an honest kernel of the same task") {
  const auto manifest = hostile_manifest();
  std::map<std::string, base::json> by_file;
  for (const auto& c : manifest.at("candidates"))
    by_file[c.at("file").get<std::string>()] = c;
  for (const auto& [file, c] : by_file) {
    CAPTURE(file);
    const bool legal = c.value("legal", false);
    if (legal) CHECK(lists_ok(c));
    if (!legal && lists_ok(c)) CHECK(c.contains("twin"));
    if (c.value("also_as_host_entry", false)) CHECK(c.at("form") == "device_only");
    if (!c.contains("twin")) continue;
    const auto twin = by_file.find(c.at("twin").get<std::string>());
    REQUIRE(twin != by_file.end());
    CHECK(twin->second.value("legal", false));
    CHECK_FALSE(twin->second.contains("twin"));
    // Judged in the form of whoever is compared with it.
    CHECK(twin->second.value("also_as_host_entry", false));
    CHECK(twin->second.at("task") == c.at("task"));
    const auto bound = c.at("pays_at_most_e2").get<int>();
    CHECK(bound >= 100);
    CHECK(bound <= (legal ? 130 : 110));
  }
}
