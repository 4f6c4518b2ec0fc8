// What every lane of the list must give.
#include "env/task/lane.hpp"

#include <array>
#include <set>

#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/pytorch/pytorch_lane.hpp"
#include "env/measure/measure_name.hpp"
#include "env/task/lane_on_gpus.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern;
using env::baseline_choice;

TEST_CASE("every lane has a name of its own, and all that is asked of it") {
  std::set<std::string_view> names, endings;
  for (const env::lane* one : env::all_lanes()) {
    CAPTURE(one->name);
    CHECK(names.insert(one->name).second);
    CHECK(endings.insert(one->file_ending).second);
    CHECK(one->file_ending.starts_with('.'));
    CHECK(env::find_lane(one->name) == one);
    for (const std::string_view text : {one->summary, one->language, one->usual_device_class})
      CHECK_FALSE(text.empty());
    REQUIRE((one->body != nullptr));
    CHECK((one->body != &env::tensor_format || !one->element_types.empty()));
    REQUIRE_FALSE(one->protocols.empty());
    for (const std::string_view protocol : one->protocols) {
      CHECK(env::parse_measure_name(protocol));
      CHECK(env::check_protocol(*one, false, protocol));
    }
    REQUIRE((one->identity != nullptr));
    CHECK(one->identity("a") != one->identity("b"));
    REQUIRE((one->restrictions != nullptr));
    REQUIRE((one->advice != nullptr));
    REQUIRE((one->open_judge != nullptr));
    REQUIRE((one->device_class != nullptr));
    REQUIRE((one->new_task != nullptr));
    if (one->on_gpus_too != nullptr) {
      CHECK(one->device == env::device_kind::core);
      CHECK_FALSE(one->on_gpus_too->usual_device_class.empty());
      CHECK(one->on_gpus_too->usual_device_class != one->usual_device_class);
      REQUIRE((one->on_gpus_too->device_class != nullptr));
      REQUIRE((one->on_gpus_too->restrictions != nullptr));
      REQUIRE((one->on_gpus_too->check_devices != nullptr));
      REQUIRE_FALSE(one->on_gpus_too->protocols.empty());
      for (const std::string_view protocol : one->on_gpus_too->protocols)
        CHECK(env::check_protocol(*one, true, protocol));
    }
    const auto text = one->new_task("begun");
    REQUIRE(text);
    const auto parsed = env::parse_task(*text);
    REQUIRE(parsed);
    CHECK(parsed->lane == one);
    CHECK_FALSE(one->entry(*parsed).empty());
    if (one->optional_entry != nullptr) CHECK_FALSE(one->optional_entry(*parsed).empty());
  }
  CHECK(env::find_lane("no_such_lane") == nullptr);
}

TEST_CASE("what may be measured over is what a task has, or what its lane lists") {
  env::lane with_graph = env::cpp_lane;
  with_graph.name = "made_up";
  const std::array<baseline_choice, 1> graph{baseline_choice::graph};
  with_graph.baselines = graph;
  CHECK(env::check_baseline(with_graph, false, baseline_choice::graph));
  CHECK(env::check_baseline(env::cpp_lane, false, baseline_choice::eager));
  const auto none = env::check_baseline(with_graph, false, baseline_choice::compile);
  REQUIRE_FALSE(none);
  CHECK(test::contains(none.error().message, "lane made_up, which has task, eager, plain, graph"));

  env::task subject = env::parse_task(env::cpp_lane.new_task("begun").value()).value();
  CHECK(env::own_baseline(subject) == baseline_choice::plain);
  CHECK(env::check_baseline(subject, false, baseline_choice::of_task));
  CHECK(env::check_baseline(subject, false, baseline_choice::plain));
  CHECK_FALSE(env::check_baseline(subject, false, baseline_choice::eager));
  CHECK_FALSE(env::check_baseline(subject, false, baseline_choice::graph));
  subject.lane = &with_graph;
  CHECK(env::check_baseline(subject, false, baseline_choice::graph));
  CHECK_FALSE(env::check_baseline(subject, false, baseline_choice::eager));
  subject.lane = nullptr;
  CHECK_FALSE(env::validate(subject));
}

TEST_CASE("a lane on two devices says what it has on which, and who else has the rest") {
  const env::lane& modules = env::pytorch_lane;
  CHECK(env::check_protocol(modules, true, "kernelbench/1"));
  const auto on_core = env::check_protocol(modules, false, "kernelbench/1");
  REQUIRE_FALSE(on_core);
  CHECK(on_core.error().message ==
        "'kernelbench/1' is no protocol of lane pytorch on a core, which has paired/1; lane cuda, "
        "lane pytorch on a GPU has it");
  for (const auto one : {baseline_choice::graph, baseline_choice::compile,
                         baseline_choice::reduce_overhead, baseline_choice::max_autotune}) {
    CAPTURE(env::name_of(one));
    CHECK(env::parse_baseline(env::name_of(one)) == one);
    CHECK(env::check_baseline(modules, true, one));
    const auto refused = env::check_baseline(modules, false, one);
    REQUIRE_FALSE(refused);
    CHECK(test::contains(refused.error().message, env::name_of(one)));
    CHECK(test::contains(refused.error().message, "pytorch on a GPU has it"));
  }
  // The control: what is on no device of it is refused on both.
  CHECK_FALSE(env::check_protocol(modules, true, "cost_model/1"));
  CHECK_FALSE(env::check_protocol(env::cpp_lane, true, "kernelbench/1"));
}
