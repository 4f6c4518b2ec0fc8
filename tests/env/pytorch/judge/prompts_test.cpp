// The shipped templates of prompts for modules.
#include <array>
#include <string_view>

#include <fmt/ranges.h>

#include "env/prompt/completion.hpp"
#include "env/prompt/prompt.hpp"
#include "modules_fixture.hpp"

using namespace quern::test;
using namespace quern::test::modules;

TEST_CASE("the rules say where a module runs") {
  const auto said = [](bool on_gpu) {
    return fmt::format("{}", fmt::join(default_restrictions(pytorch_lane, {}, on_gpu), "\n"));
  };
  CHECK(contains(said(false), "on one core"));
  CHECK_FALSE(contains(said(false), "GPU"));
  CHECK(contains(said(true), "tensors on the GPU"));
  CHECK(contains(said(true), "load_inline"));
  CHECK_FALSE(contains(said(true), "on one core"));
}

TEST_CASE("prompts for modules show the reference, the entry and earlier modules, or an example") {
  const auto of = task_of(layered);
  prompt_facts facts;
  facts.device_class = "cpu-torch-avx2";
  facts.restrictions = default_restrictions(pytorch_lane);
  const std::array<exemplar, 2> earlier{{{"first = 1\n", 120}, {"second = 2\n", 85}}};
  for (const std::string_view backend : {"cpp", "cuda", "triton"})
    for (const std::string_view form : {"one_shot", "contrastive"}) {
      const std::string name = fmt::format("modules_{}_{}", backend, form);
      CAPTURE(name);
      const auto parsed = prompt_template::load(source_dir() / "env/prompts" / (name + ".prompt"));
      CAPTURE(parsed ? "" : parsed.error().message);
      REQUIRE(parsed);
      CHECK(parsed->name() == name);
      const std::string none = render_prompt(*parsed, *of, {}, facts);
      const std::string two = render_prompt(*parsed, *of, earlier, facts);
      CHECK(contains(none, "self.register_buffer"));
      CHECK(contains(none, "class ModelNew(torch.nn.Module)"));
      CHECK(contains(none, "cpu-torch-avx2"));
      CHECK(contains(none, "1. The results must equal"));
      CHECK(contains(none, form == "one_shot" ? "add_" : "There are none yet"));
      // What shows no earlier modules shows them neither where there are some.
      CHECK((none == two) == (form == "one_shot"));
      CHECK(contains(two, "score 1.20") == (form == "contrastive"));
      CHECK_FALSE(contains(two, "{{"));
      for (const std::string_view heading :
           {"## Performance Analysis", "## Algorithm Design", "## Code"})
        CHECK(contains(none, std::string("\n") + std::string(heading) + "\n"));
    }
}
