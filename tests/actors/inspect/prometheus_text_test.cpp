// What Prometheus is told of a run: names, labels, words.
#include "actors/inspect/prometheus_text.hpp"

#include <map>
#include <set>

#include "actors/inspect/series_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "storage/line_series.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using test::contains;

namespace {

/// Checks the form of a text as its format demands it, and gives its samples.
std::map<std::string, double> samples_in(const std::string& text) {
  std::map<std::string, double> found;
  std::set<std::string> typed;
  std::string current;
  REQUIRE(text.ends_with('\n'));
  for (const auto line : base::split(base::trim(text), '\n')) {
    const auto words = base::split(line, ' ');
    REQUIRE(words.size() >= 2);
    if (words[0] == "#") {
      REQUIRE(words.size() >= 4);
      if (words[1] == "HELP") current = words[2];
      CHECK(words[2] == current);
      // All samples of a metric stand together, behind one HELP and one TYPE.
      if (words[1] == "TYPE") CHECK(typed.insert(current).second);
      continue;
    }
    const std::string series(line.substr(0, line.rfind(' ')));
    CHECK(series.substr(0, series.find('{')) == current);
    CHECK(typed.contains(current));
    CHECK(found.emplace(series, std::stod(std::string(words.back()))).second);
  }
  return found;
}

}  // namespace

TEST_CASE("a run without a line yet is up, and nothing else is known of it") {
  const auto found = samples_in(prometheus_text("mine", nullptr));
  CHECK(found == std::map<std::string, double>{{"quern_up{run=\"mine\"}", 1}});
}

TEST_CASE("numbers have the names of their keys, keys that differ are labels") {
  const auto line = base::ordered_json::parse(
      R"({"step": 12, "ok": null, "batch": {"reward": 0.1, "verdicts": {"ok": 3, "wrong_value": 5}},
          "roles": {"generator": {"busy": 0.5, "idle": 0.25, "waits_for": "window"},
                    "learner": {"busy": 0.75, "idle": 0}},
          "dropped": {"a\"b\\c\nd": 1}, "of_later/builds": {"x-y": 1e300}})");
  const std::string text = prometheus_text("a\"b", line);
  const auto found = samples_in(text);
  CHECK(found == std::map<std::string, double>{{"quern_up{run=\"a\\\"b\"}", 1},
                                               {"quern_step", 12},
                                               {"quern_batch_reward", 0.1},
                                               {"quern_batch_verdicts{verdict=\"ok\"}", 3},
                                               {"quern_batch_verdicts{verdict=\"wrong_value\"}", 5},
                                               {"quern_roles_busy{role=\"generator\"}", 0.5},
                                               {"quern_roles_busy{role=\"learner\"}", 0.75},
                                               {"quern_roles_idle{role=\"generator\"}", 0.25},
                                               {"quern_roles_idle{role=\"learner\"}", 0},
                                               {"quern_dropped{reason=\"a\\\"b\\\\c\\nd\"}", 1},
                                               {"quern_of_later_builds_x_y", 1e300}});
  CHECK(contains(text, "# HELP quern_batch_reward mean reward of the samples of the step"));
  CHECK(contains(text, "# TYPE quern_roles_busy gauge\n"));
}

TEST_CASE("a series is found by its keys, as many as it has") {
  const auto found = find_series("roles/learner/busy");
  REQUIRE(found);
  CHECK(found->entry->label == "role");
  CHECK(found->varying == "learner");
  for (const char* other : {"", "roles", "roles/learner", "roles/learner/busy/x", "batch",
                            "batch/verdicts", "learner/loss/x", "steps"})
    CHECK_FALSE(find_series(other));
}

TEST_CASE("every series has words, a name of its own, and a place in the documentation") {
  const auto page = base::read_file(test::source_dir() / "docs/formats/metrics.md");
  REQUIRE(page);
  std::set<std::string_view> names;
  for (const series_entry& entry : all_series()) {
    CAPTURE(entry.name);
    CHECK(names.insert(entry.name).second);
    CHECK_FALSE(entry.help.empty());
    CHECK(contains(std::string(entry.name), "*") == !entry.label.empty());
    for (const auto key : base::split(entry.name, '/'))
      if (key != "*") CHECK(contains(*page, std::string(key)));
  }
}
