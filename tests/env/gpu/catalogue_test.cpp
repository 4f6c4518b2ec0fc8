// The catalogue of lane cuda's hostile candidates holds together: files,
// tests/hostile/cuda/manifest.json and the table of docs/integrity.md name the same candidates, and
// `ok` stands only where it must.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "env/task/task_codec.hpp"
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

bool lists_ok(const base::json& candidate) {
  for (const char* list : {"with_screen", "without_screen", "right_as_host_entry"})
    for (const auto& right : candidate.value(list, base::json::array()))
      if (right == "ok") return true;
  return false;
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
    CHECK_FALSE(c.at("with_screen").empty());
    CHECK_FALSE(c.at("without_screen").empty());
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
