// Launch plans of the honest candidates as runners perform them: every pointer leads to the byte of
// the tensor that the plan names, in every slot.
#include "env/lanes/cuda/program.hpp"

#include <cstring>

#include "base/file.hpp"
#include "env/gpu/slots.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "nlohmann/json.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

std::string honest_source(const std::string& file) {
  return base::read_file(test::source_dir() / "tests/honest/cuda" / file).value();
}

env::task honest_task(const std::string& suite, const std::string& name) {
  return env::load_task(test::source_dir() / "env/suites" / suite / (name + ".task.yaml")).value();
}

struct performed {
  env::device_instance instance;
  std::vector<env::launch_step> steps;
  env::device_program program;
};

performed perform(const env::task& what, const env::launch_plan& plan,
                  const std::vector<std::int64_t>& sizes) {
  performed p{env::make_device_instance(what, sizes).value(), {}, {}};
  const auto workspace = plan.workspace(sizes).value();
  p.steps = plan.steps(env::call_of(p.instance.at, workspace)).value();
  p.program = env::make_device_program(p.steps, p.instance).value();
  return p;
}

/// Made-up addresses of the regions.
constexpr std::uint64_t base_of[QUERN_REGIONS] = {1ULL << 40, 2ULL << 40, 3ULL << 40};

std::uint64_t runner_address(const quern_place& place, std::uint64_t slot) {
  if (place.region < 0) return 0;
  return base_of[place.region] + place.offset + slot * place.stride;
}

struct seen_pointers {
  int inputs = 0, outputs = 0, workspace = 0, numbers = 0, sets = 0, copies = 0, launches = 0;
};

/// The address in this slot as the evaluator's views of the same memory have it.
std::uint64_t view_address(const env::device_instance& d, const env::plan_pointer& p,
                           std::int64_t slot, seen_pointers& seen) {
  const auto offset = static_cast<std::uint64_t>(p.offset);
  switch (p.buffer) {
    case env::plan_buffer::input:
      ++seen.inputs;
      return env::slot_view(base_of[QUERN_INPUTS], d.at.inputs, 1).at(p.index, 0) + offset;
    case env::plan_buffer::output:
      ++seen.outputs;
      return env::slot_view(base_of[QUERN_OUTPUTS], d.at.outputs, 112).at(p.index, slot) + offset;
    case env::plan_buffer::workspace:
      ++seen.workspace;
      return base_of[QUERN_WORKSPACE] + env::workspace_offset + offset;
    case env::plan_buffer::null:
      break;
  }
  return 0;
}

void check_pointer(const performed& p, const quern_parameter& got, const env::plan_pointer& want,
                   seen_pointers& seen) {
  CHECK(got.bytes == 0);
  for (const std::int64_t slot : {0, 1, 111})
    CHECK(runner_address(got.place, static_cast<std::uint64_t>(slot)) ==
          view_address(p.instance, want, slot, seen));
}

void check_launch(const performed& p, const quern_step& got, const env::kernel_launch& want,
                  const quern_parameter* given, seen_pointers& seen) {
  ++seen.launches;
  CHECK(got.kind == QUERN_STEP_LAUNCH);
  CHECK(got.kernel == static_cast<std::int32_t>(want.kernel));
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(got.grid[i] == want.grid[i]);
    CHECK(got.block[i] == want.block[i]);
  }
  CHECK(got.shared_bytes == want.shared_bytes);
  CHECK((got.cooperative != 0) == want.cooperative);
  REQUIRE(got.parameters == want.arguments.size());
  for (std::size_t a = 0; a < want.arguments.size(); ++a) {
    if (const auto* pointer = std::get_if<env::plan_pointer>(&want.arguments[a])) {
      check_pointer(p, given[a], *pointer, seen);
      continue;
    }
    const auto& number = std::get<env::plan_scalar>(want.arguments[a]);
    ++seen.numbers;
    CHECK(given[a].bytes == number.size);
    CHECK(std::memcmp(given[a].raw, number.bytes.data(), number.size) == 0);
  }
}

void check_program(const performed& p, seen_pointers& seen) {
  REQUIRE(p.program.steps.size() == p.steps.size());
  std::size_t parameters = 0;
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const auto& got = p.program.steps[i];
    CHECK(got.first_parameter == parameters);
    parameters += got.parameters;
    REQUIRE(parameters <= p.program.parameters.size());
    const auto* given = p.program.parameters.data() + got.first_parameter;
    if (const auto* launch = std::get_if<env::kernel_launch>(&p.steps[i])) {
      check_launch(p, got, *launch, given, seen);
    } else if (const auto* set = std::get_if<env::memory_set>(&p.steps[i])) {
      ++seen.sets;
      CHECK(got.kind == QUERN_STEP_SET);
      CHECK(got.bytes == static_cast<std::uint64_t>(set->bytes));
      CHECK(got.byte == set->value);
      REQUIRE(got.parameters == 1);
      check_pointer(p, given[0], set->to, seen);
    } else {
      const auto& copy = std::get<env::memory_copy>(p.steps[i]);
      ++seen.copies;
      CHECK(got.kind == QUERN_STEP_COPY);
      CHECK(got.bytes == static_cast<std::uint64_t>(copy.bytes));
      REQUIRE(got.parameters == 2);
      check_pointer(p, given[0], copy.to, seen);
      check_pointer(p, given[1], copy.from, seen);
    }
  }
  CHECK(parameters == p.program.parameters.size());
}

}  // namespace

TEST_CASE("programs of the honest candidates lead every pointer where the plan says") {
  const auto manifest = nlohmann::json::parse(honest_source("manifest.json"));
  seen_pointers seen;
  int programs = 0;
  for (const auto& entry : manifest["candidates"]) {
    if (entry["form"] != "device_only") continue;
    const std::string file = entry["file"];
    CAPTURE(file);
    const auto what = honest_task(entry["suite"], entry["task"]);
    const auto plan = env::parse_launch_plan(honest_source(file), env::signature_of(what));
    REQUIRE(plan.has_value());
    auto all = env::tensors_of(what).hidden_sizes;
    all.push_back(env::tensors_of(what).sizes);
    for (const auto& sizes : all) {
      check_program(perform(what, *plan, sizes), seen);
      ++programs;
    }
  }
  CHECK(programs > 300);
  CHECK(seen.inputs > 0);
  CHECK(seen.outputs > 0);
  CHECK(seen.workspace > 0);
  CHECK(seen.numbers > 0);
  CHECK(seen.sets > 0);
  CHECK(seen.launches > 300);
}

TEST_CASE("one program, number by number") {
  const auto what = honest_task("cuda", "frobenius_norm_f32");
  const auto plan = env::parse_launch_plan(honest_source("frobenius_norm_f32.last_block.cu"),
                                           env::signature_of(what));
  REQUIRE(plan.has_value());
  const auto p = perform(what, *plan, {3, 1000});
  REQUIRE(p.program.steps.size() == 3);
  const auto& set = p.program.steps[0];
  CHECK(set.kind == QUERN_STEP_SET);
  CHECK(set.bytes == 4);
  const auto& squares = p.program.steps[1];
  CHECK(squares.grid[0] == 6);
  CHECK(squares.block[0] == 512);
  REQUIRE(squares.parameters == 5);
  const auto* given = p.program.parameters.data() + squares.first_parameter;
  CHECK(given[0].place.region == QUERN_INPUTS);
  CHECK(given[0].place.offset == 4096);
  CHECK(given[0].place.stride == 0);
  CHECK(given[1].place.region == QUERN_WORKSPACE);
  CHECK(given[1].place.offset == 4096 + 256);
  CHECK(given[3].place.offset == 4096 + 4);
  CHECK(given[4].bytes == 8);
  std::int64_t count = 0;
  std::memcpy(&count, given[4].raw, sizeof count);
  CHECK(count == 3000);
  const auto& scale = p.program.steps[2];
  CHECK(scale.kernel == 1);
  const auto& y = p.program.parameters[scale.first_parameter + 2].place;
  CHECK(y.region == QUERN_OUTPUTS);
  CHECK(y.offset == 4096);
  // 12,000 bytes between guards, rounded up to the unit of addresses.
  CHECK(y.stride == (4096 + 12'000 + 4096 + 255) / 256 * 256);
}

TEST_CASE("a null pointer stays one, copies have a target and a source") {
  const auto what = honest_task("cuda", "softmax_rows_f32");
  const auto d = env::make_device_instance(what, env::tensors_of(what).hidden_sizes[0]).value();
  const env::plan_pointer input{env::plan_buffer::input, 0, 0},
      output{env::plan_buffer::output, 0, 0};
  env::kernel_launch launch;
  launch.arguments = {env::plan_pointer{}, output};
  const auto p = env::make_device_program(
      std::vector<env::launch_step>{launch, env::memory_copy{output, input, 4}}, d);
  REQUIRE(p.has_value());
  CHECK(p->parameters[0].place.region == -1);
  CHECK(p->parameters[0].place.offset == 0);
  CHECK(p->parameters[0].place.stride == 0);
  CHECK(p->parameters[1].place.region == QUERN_OUTPUTS);
  CHECK(p->steps[1].kind == QUERN_STEP_COPY);
  CHECK(p->parameters[2].place.region == QUERN_OUTPUTS);
  CHECK(p->parameters[3].place.region == QUERN_INPUTS);
}

TEST_CASE("what a runner does not take is refused before it is sent") {
  const auto what = honest_task("cuda", "softmax_rows_f32");
  const auto d = env::make_device_instance(what, env::tensors_of(what).hidden_sizes[0]).value();
  const auto refused = [&](const env::kernel_launch& launch) {
    const auto p = env::make_device_program(std::vector<env::launch_step>{launch}, d);
    return p ? std::string() : p.error().message;
  };
  env::kernel_launch launch;
  launch.kernel = QUERN_MOST_KERNELS - 1;
  launch.arguments.resize(QUERN_MOST_PARAMETERS);
  CHECK(refused(launch) == "");
  launch.kernel = QUERN_MOST_KERNELS;
  CHECK(test::contains(refused(launch), "more than 64 kernels"));
  launch.kernel = 0;
  launch.arguments.resize(QUERN_MOST_PARAMETERS + 1);
  CHECK(test::contains(refused(launch), "65 parameters, the limit is 64"));
}
