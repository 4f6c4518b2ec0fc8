// Names of earlier versions of the format: refused in a person's file with the present names, read
// from what a run keeps, and rewritten by `quern config upgrade`.
#include "actors/config/renamed_keys.hpp"

#include "actors/config/config_file.hpp"
#include "actors/config/config_upgrade.hpp"
#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using test::contains;

namespace {

std::string told_of(std::string_view yaml, config_writer writer = config_writer::person) {
  const auto loaded = load_config_text(yaml, "my.yaml", {}, writer);
  return loaded ? "" : loaded.error().message;
}

/// What an earlier build wrote, with a value that no default has.
const char* const first_version =
    "quern_config: 1\n"
    "algorithm: {max_attempts: 7}\n"
    "observe:\n"
    "  panel: false  # no panel here\n"
    "  panel_train: 17\n"
    "  panel_held_out: 18\n"
    "  panel_swapped: true\n"
    "  panel_seed: 19\n"
    "  panel_exemplars_share: 0.25\n"
    "  panel_exemplars_fastest: true\n";

}  // namespace

TEST_CASE("each key that was renamed is a key now, and its earlier name is none") {
  for (const renamed_key& key : renamed_keys()) {
    const auto known = [](std::string_view path) {
      const auto& keys = config_keys();
      return std::any_of(keys.begin(), keys.end(),
                         [&](const config_key& one) { return one.path == path; });
    };
    CHECK_MESSAGE(known(key.now), key.now);
    CHECK_MESSAGE(!known(key.before), key.before);
  }
}

TEST_CASE("a person's file of version 1 is refused with every line that has another name now") {
  CHECK(told_of(first_version) ==
        "my.yaml: line 1: quern_config is 1, this build reads 2; "
        "line 2: algorithm.max_attempts is called env.max_attempts now, in another group: by hand, "
        "take `max_attempts: 7` out of `algorithm` and write it into `env`; "
        "line 4: observe.panel is called observe.evaluation_set now; "
        "line 5: observe.panel_train is called observe.evaluation_set_train now; "
        "line 6: observe.panel_held_out is called observe.evaluation_set_held_out now; "
        "line 7: observe.panel_swapped is called observe.evaluation_set_swapped now; "
        "line 8: observe.panel_seed is called observe.evaluation_set_seed now; "
        "line 9: observe.panel_exemplars_share is called observe.evaluation_set_exemplars_share "
        "now; "
        "line 10: observe.panel_exemplars_fastest is called "
        "observe.evaluation_set_exemplars_fastest now; "
        "do line 2 first, then change the rest, or type `quern config upgrade FILE`, which does "
        "it");
  CHECK(told_of("quern_config: 1\nlearner: {steps: 3}\n") ==
        "my.yaml: line 1: quern_config is 1, this build reads 2; change that, or type `quern "
        "config upgrade FILE`, which does it");
  CHECK(told_of("quern_config: 2\nobserve: {panel: false}\n") ==
        "my.yaml: line 2: observe.panel is called observe.evaluation_set now; change that, or type "
        "`quern config upgrade FILE`, which does it");
  // The control.
  CHECK(told_of("quern_config: 2\nobserve: {evaluation_set: false}\n") == "");
}

TEST_CASE("a key that belongs into another group is told with what to do, which leads on") {
  const char* const moved =
      "algorithm.max_attempts is called env.max_attempts now, in another group: by hand, take ";
  // Nothing is left for an upgrade, which is not named.
  CHECK(told_of("quern_config: 2\nalgorithm: {max_attempts: 7}\n") ==
        std::string("my.yaml: line 2: ") + moved +
            "`max_attempts: 7` out of `algorithm` and write it into `env`");
  CHECK(told_of("quern_config: 2\nalgorithm: {max_attempts: 7}\nenv: {max_attempts: 3}\n") ==
        std::string("my.yaml: line 2: ") + moved +
            "`max_attempts: 7` out of `algorithm`; `max_attempts` stands in `env` already: keep "
            "the value that you want there");
  CHECK(contains(told_of("quern_config: 2\nalgorithm: {max_attempts: [7, 8]}\n"),
                 "take `max_attempts` with its value out of `algorithm` and write it into `env`"));
  const std::string of_stages = told_of(
      "quern_config: 1\nalgorithm: {max_attempts: 7}\nstages:\n  - stage: sft\n"
      "    algorithm:\n      max_attempts: 8\n");
  CHECK(contains(of_stages, "line 6: " + std::string(moved) + "`max_attempts: 8` out of"));
  CHECK(contains(of_stages, "; do line 2, line 6 first, then change the rest, or type"));
  // A person who does what both refusals say comes to the end.
  const std::string done =
      "quern_config: 1\nalgorithm: {group_size: 4}\nenv: {max_attempts: 7}\n"
      "observe: {panel: false}\n";
  CHECK_FALSE(contains(told_of(done), "by hand"));
  const auto upgraded = upgrade_config(done);
  REQUIRE(upgraded);
  CHECK(told_of(upgraded->text) == "");
  CHECK(contains(upgraded->text, "env: {max_attempts: 7}"));
}

TEST_CASE("a setting by an earlier name is refused with the present one") {
  run_config config;
  const auto set = apply_setting(config, "observe.panel_seed=3");
  REQUIRE_FALSE(set);
  CHECK(set.error().message ==
        "observe.panel_seed is called observe.evaluation_set_seed now: use that name");
  const auto moved = apply_setting(config, "algorithm.max_attempts=2");
  REQUIRE_FALSE(moved);
  CHECK(moved.error().message ==
        "algorithm.max_attempts is called env.max_attempts now: use that name");
  CHECK(apply_setting(config, "env.max_attempts=2"));
}

TEST_CASE("what a run of an earlier build keeps is read by its names, and written by the present") {
  const auto read = load_config_text(first_version, "config.yaml", {}, config_writer::run);
  REQUIRE(read);
  CHECK(read->env.max_attempts == 7);
  CHECK_FALSE(read->observe.evaluation_set);
  CHECK(read->observe.evaluation_set_train == 17);
  CHECK(read->observe.evaluation_set_held_out == 18);
  CHECK(read->observe.evaluation_set_swapped);
  CHECK(read->observe.evaluation_set_seed == 19);
  CHECK(read->observe.evaluation_set_exemplars_share == 0.25);
  CHECK(read->observe.evaluation_set_exemplars_fastest);
  CHECK(contains(to_yaml(*read), "quern_config: 2\n"));
  CHECK(contains(to_yaml(*read), "evaluation_set_train: 17"));
  CHECK(told_of(to_yaml(*read)) == "");
  // Strict all the same.
  const auto said = [](const char* yaml) { return told_of(yaml, config_writer::run); };
  CHECK(contains(said("quern_config: 1\nobserve: {panel_train: -1}\n"),
                 "observe.evaluation_set_train: -1 is outside 0 .. 100000"));
  CHECK(contains(said("quern_config: 1\nobserve: {panel_train: 1, evaluation_set_train: 2}\n"),
                 "key 'observe.evaluation_set_train' stands twice"));
  CHECK(contains(said("quern_config: 1\nenv: {max_attempts: 2}\nalgorithm: {max_attempts: 7}\n"),
                 "key 'env.max_attempts' stands twice, once as algorithm.max_attempts"));
  CHECK(contains(said("quern_config: 1\nobserve: {pannel: true}\n"), "unknown key"));
  CHECK(contains(said("quern_config: 2\nobserve: {panel: true}\n"),
                 "observe.panel is called observe.evaluation_set now"));
  CHECK(contains(said("quern_config: 3\n"), "line 1: quern_config is 3, this build knows 2"));
}

TEST_CASE("an upgrade changes the version and the names, and not one other byte") {
  const char* const before =
      "# panel: a comment stays\r\n"
      "quern_config: 1   # of last year\n"
      "run: {name: \"panel\"}\n"
      "observe:\n"
      "  # panel_train: 3\n"
      "  'panel_train': 17\n"
      "  panel:   false\n"
      "stages:\n"
      "  - stage: sft\n"
      "    observe: {panel_seed: 4, \"panel_held_out\": 5}\n";
  const auto made = upgrade_config(before);
  REQUIRE_MESSAGE(made, made.error().message);
  CHECK(made->text ==
        "# panel: a comment stays\r\n"
        "quern_config: 2   # of last year\n"
        "run: {name: \"panel\"}\n"
        "observe:\n"
        "  # panel_train: 3\n"
        "  'evaluation_set_train': 17\n"
        "  evaluation_set:   false\n"
        "stages:\n"
        "  - stage: sft\n"
        "    observe: {evaluation_set_seed: 4, \"evaluation_set_held_out\": 5}\n");
  REQUIRE(made->changes.size() == 5);
  CHECK(made->changes[0] == "line 2: quern_config is 2");
  CHECK(made->changes[1] == "line 6: observe.panel_train is called observe.evaluation_set_train");
  const auto again = upgrade_config(made->text);
  REQUIRE(again);
  CHECK(again->changes.empty());
  CHECK(again->text == made->text);
}

TEST_CASE("an upgrade of what it cannot write says what to do, and gives no text") {
  const auto said = [](std::string_view text) {
    const auto made = upgrade_config(text);
    return made ? "" : made.error().message;
  };
  CHECK(said(first_version) ==
        "line 2: algorithm.max_attempts is called env.max_attempts now, in another group: by hand, "
        "take `max_attempts: 7` out of `algorithm` and write it into `env`; then type this again, "
        "nothing was changed");
  CHECK(contains(said("quern_config: 3\n"), "quern_config is 3, this build knows 2"));
  CHECK(contains(said("observe: {panel: true}\n"), "'quern_config: 2' is missing"));
  CHECK(contains(said("quern_config: 1\nobserve: {panel: true"), "line"));
  CHECK(contains(said("just text\n"), "'quern_config: 2' is missing"));
}
