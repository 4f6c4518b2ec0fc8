// Chains of stages of earlier builds: a person's file is refused with its lines and upgraded, the
// plans that a chain keeps are read.
#include "actors/config/config_upgrade.hpp"

#include "actors/config/stages.hpp"
#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using test::contains;

namespace {

constexpr std::string_view first_version =
    "quern_config: 1\n"
    "learner: {steps: 7}\n"
    "observe: {panel_train: 3}\n"
    "stages:\n"
    "  - stage: self_train\n"
    "    observe: {panel: false}\n"
    "  - stage: contrastive\n";

}  // namespace

TEST_CASE("a chain of version 1 is refused with the lines of all its stages, then upgraded") {
  const base::temp_folder folder = base::temp_folder::make().value();
  const auto file = folder.path() / "chain.yaml";
  REQUIRE(base::write_file_atomic(file, first_version));
  const auto refused = load_stages(file, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        file.string() +
            ": line 1: quern_config is 1, this build reads 2; "
            "line 3: observe.panel_train is called observe.evaluation_set_train now; "
            "line 6: observe.panel is called observe.evaluation_set now; "
            "change these, or type `quern config upgrade FILE`, which does it");
  const auto upgraded = upgrade_config(first_version);
  REQUIRE(upgraded);
  REQUIRE(base::write_file_atomic(file, upgraded->text));
  const auto stages = load_stages(file, {});
  REQUIRE_MESSAGE(stages, stages.error().message);
  CHECK_FALSE((*stages)[0].config.observe.evaluation_set);
  CHECK((*stages)[1].config.observe.evaluation_set);
  CHECK((*stages)[1].config.observe.evaluation_set_train == 3);

  // What an earlier build kept of this chain.
  const auto chain = folder.path() / "chain";
  REQUIRE(create_chain(chain, *stages));
  const auto plan = chain / "stages" / "1-self_train.yaml";
  std::string text = base::read_file(plan).value();
  const auto put = [&](std::string_view what, std::string_view with) {
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
      text.replace(at, what.size(), with);
  };
  put("quern_config: 2", "quern_config: 1");
  put("evaluation_set", "panel");
  REQUIRE(contains(text, "panel_train: 3"));
  REQUIRE(base::write_file_atomic(plan, text));
  const auto again = read_chain(chain);
  REQUIRE_MESSAGE(again, again.error().message);
  CHECK_FALSE((*again)[0].config.observe.evaluation_set);
  CHECK((*again)[0].config.observe.evaluation_set_train == 3);
}

TEST_CASE("a mark of UTF-8 stays, and a version in another form is left to people") {
  const std::string mark = "\xEF\xBB\xBF";
  const auto marked = upgrade_config(mark + std::string(first_version));
  REQUIRE_MESSAGE(marked, marked.error().message);
  CHECK(marked->text == mark + upgrade_config(first_version)->text);

  const auto tagged = upgrade_config("quern_config: !!int 1\nlearner: {steps: 7}\n");
  REQUIRE_FALSE(tagged);
  CHECK(tagged.error().message.find("line 1: quern_config is written in a form") == 0);
  CHECK(tagged.error().message.find("write `quern_config: 2` by hand") != std::string::npos);
  const auto wide = upgrade_config(std::string("\xFF\xFEq\0u\0", 6));
  REQUIRE_FALSE(wide);
  CHECK(wide.error().message.find("UTF-16") != std::string::npos);
}

TEST_CASE("a key that stands by both of its names is left to people") {
  for (const std::string_view group :
       {"  panel_train: 3\n  evaluation_set_train: 4\n", "  panel_train: 3\n  panel_train: 4\n"}) {
    const auto refused = upgrade_config("quern_config: 1\nobserve:\n" + std::string(group));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.find("line 3: observe.panel_train is called") !=
          std::string::npos);
    CHECK(refused.error().message.find("keep one of them") != std::string::npos);
  }
  // In groups of their own they are two keys.
  CHECK(
      upgrade_config("quern_config: 1\nstages:\n  - observe:\n      panel: true\n  - observe:\n"
                     "      panel: false\n"));
}
