// Tasks made from compositions: valid files with everything that judging needs.
#include "env/grammar/task_maker.hpp"

#include <set>

#include "env/grammar/canonical.hpp"
#include "env/grammar/draw.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/task/suite.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/check.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

env::task make(std::string_view text) {
  return env::make_task(env::parse_composition(text).value(), {0, &env::cpp_lane}).value();
}

}  // namespace

TEST_CASE("a made task is valid, survives its file and names its composition") {
  for (std::uint64_t k = 0; k < 150; ++k) {
    const env::composition what = env::draw_composition(21, k, {});
    const env::task made = env::make_task(what, {0, &env::cpp_lane}).value();
    INFO(to_text(what));
    CHECK(validate(made));
    CHECK(env::parse_task(to_yaml(made)).value() == made);
    CHECK(env::make_task(what, {0, &env::cpp_lane}).value() == made);
    CHECK(env::make_task(env::composition_probe(what), {0, &env::cpp_lane}).value() == made);
    CHECK(env::composition_of_reference(made.reference).value() == what);
    CHECK(made.family == family_of(what));
    CHECK(env::tensors_of(made).hidden_sizes.size() == 2);
    for (const env::input_spec& input : env::tensors_of(made).inputs)
      CHECK(input.dists.size() == 5);
    CHECK(env::tensors_of(made).sizes[0] % 4 == 0);
    CHECK(env::tensors_of(made).sizes[1] % 16 == 0);
    CHECK(made.baseline == env::baseline_kind::plain);
    CHECK(env::tensors_of(made).plain.find("double h = x[i * m + j];") != std::string::npos);
    CHECK(check_reference_text(made).empty());
    CHECK(instantiate(made, env::tensors_of(made).sizes).value().cost_bytes >
          env::tensors_of(made).sizes[0] * env::tensors_of(made).sizes[1] * 4);
  }
}

TEST_CASE("the reference is one line a step") {
  CHECK(make("times_row | sigmoid | rms | max_tensor").reference ==
        "def forward(x, w, t):\n"
        "    h = x\n"
        "    h = h * w\n"
        "    h = torch.sigmoid(h)\n"
        "    h = h / torch.sqrt(torch.mean(h * h, -1, True) + 0.01)\n"
        "    h = torch.maximum(h, t)\n"
        "    return h\n");
  CHECK(make("scale 2 | shift -0.5 | row_mean").reference ==
        "def forward(x):\n"
        "    h = x\n"
        "    h = h * 2.0\n"
        "    h = h - 0.5\n"
        "    h = torch.mean(h, -1)\n"
        "    return h\n");
}

TEST_CASE("every operator's line reads back as that operator") {
  for (int kind = 0; kind < env::step_kind_count; ++kind) {
    env::composition_step step{static_cast<env::step_kind>(kind), 0};
    for (const float constant : {-1.5F, 0.25F, 3.0F}) {
      if (has_constant(step.kind)) step.constant = constant;
      const env::composition what{{step}};
      CHECK(env::composition_of_reference(env::reference_text(what)).value() == what);
    }
  }
}

TEST_CASE("texts that the grammar does not write are not taken for its own") {
  for (const std::string text :
       {"", "def forward(x):\n    return torch.relu(x)\n",
        "def forward(x):\n    h = x\n    h = torch.gelu(h)\n    return h\n",
        "def forward(x):\n    h = x\n    h = torch.relu(h)\n    return x\n",
        "def forward(x, w):\n    h = x\n    h = torch.relu(h)\n    return h\n"})
    CHECK_FALSE(env::composition_of_reference(text));
}

TEST_CASE("shapes follow the composition") {
  CHECK(env::tensors_of(make("square | row_sum")).outputs[0].shape.size() == 1);
  CHECK(env::tensors_of(make("square | transpose")).outputs[0].shape[0].text() == "m");
  CHECK(env::tensors_of(make("square | plus_tensor")).inputs.size() == 2);
  CHECK(env::tensors_of(make("square | plus_tensor | plus_row")).inputs[1].name == "w");
}

TEST_CASE("dear compositions get small tensors, and a longer baseline larger ones") {
  const auto elements = [](const env::task& of) {
    return env::tensors_of(of).sizes[0] * env::tensors_of(of).sizes[1];
  };
  CHECK(elements(make("tanh | tanh | times_row")) * 10 < elements(make("square | times_row")));
  const env::composition what = env::parse_composition("tanh | times_row").value();
  CHECK(elements(env::make_task(what, {2000, &env::cpp_lane}).value()) >
        4 * elements(env::make_task(what, {300, &env::cpp_lane}).value()));
  CHECK_FALSE(env::make_task(what, {0.5, &env::cpp_lane}));
}

TEST_CASE("bad compositions make no task and the message says why") {
  const auto made =
      env::make_task(env::parse_composition("abs | negate | relu").value(), {0, &env::cpp_lane});
  REQUIRE_FALSE(made);
  CHECK(made.error().message.find("constant output") != std::string::npos);
  CHECK_FALSE(env::make_task({}, {0, &env::cpp_lane}));
}

TEST_CASE(
    "the tasks of cpu_quick are the grammar's, so that corpora can leave out the held-out ones") {
  const auto suite = env::load_suite(test::source_dir() / "env/suites/cpu_quick").value();
  std::set<base::hash128> held_out;
  std::set<base::hash128> others;
  for (const env::suite_member& member : suite.members) {
    INFO(member.task.name);
    const auto what = env::composition_of_reference(member.task.reference).value();
    CHECK(env::tensors_of(env::bare_task(what)).outputs == env::tensors_of(member.task).outputs);
    (member.held_out ? held_out : others).insert(skeleton_hash(what));
  }
  CHECK(held_out.size() * 2 == suite.members.size());
  CHECK(others.size() == held_out.size());
  for (const base::hash128& skeleton : held_out)
    CHECK_FALSE(others.contains(skeleton));
}
