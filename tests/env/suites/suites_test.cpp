// The shipped suites keep what the README says of them.
#include <set>
#include <string>

#include "base/file.hpp"
#include "env/grammar/canonical.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/task/suite.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/check.hpp"
#include "env/tensor_task/prototype.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

env::suite shipped(std::string_view name) {
  auto loaded = env::load_suite(test::source_dir() / "env/suites" / name);
  REQUIRE_MESSAGE(loaded.has_value(), loaded.error().message);
  return *loaded;
}

std::int64_t bytes_of(const std::vector<env::tensor_layout>& tensors) {
  std::int64_t sum = 0;
  for (const env::tensor_layout& tensor : tensors)
    sum += tensor.bytes;
  return sum;
}

}  // namespace

TEST_CASE("every task of both cpu suites keeps the rules") {
  for (const auto* name : {"cpu", "cpu_quick"}) {
    for (const env::suite_member& member : shipped(name).members) {
      const env::task& subject = member.task;
      CAPTURE(subject.name);
      CHECK(subject.lane == &env::cpp_lane);
      CHECK(env::tensors_of(subject).hidden_sizes.size() == 2);
      CHECK(env::hidden_rounds(subject) == 4);
      CHECK_FALSE(subject.degenerate);
      CHECK(env::check_reference_text(subject).empty());
      CHECK(env::tensors_of(subject).plain.find(subject.lane->entry(subject)) != std::string::npos);
      // Files are canonical, so that what is read is what is hashed.
      const auto file = test::source_dir() / "env/suites" / name / (subject.name + ".task.yaml");
      CHECK(base::read_file(file).value() == env::to_yaml(subject));
      auto all_sizes = env::tensors_of(subject).hidden_sizes;
      all_sizes.push_back(env::tensors_of(subject).sizes);
      for (const auto& sizes : all_sizes) {
        const auto at = env::instantiate(subject, sizes).value();
        CHECK(at.cost_bytes >= bytes_of(at.outputs));
        CHECK(at.cost_bytes <= bytes_of(at.outputs) + bytes_of(at.inputs));
      }
    }
  }
}

TEST_CASE("every task of both cuda suites keeps the rules") {
  constexpr std::int64_t most_bytes_of_a_call = 600'000'000;
  for (const auto* name : {"cuda", "cuda_quick"}) {
    const env::suite all = shipped(name);
    CHECK(all.recheck_above_e2 == 300);
    CHECK_FALSE(all.policy.library_calls);
    CHECK_FALSE(all.policy.lower_precision);
    CHECK(all.policy.host_entry);
    for (const env::suite_member& member : all.members) {
      const env::task& subject = member.task;
      CAPTURE(subject.name);
      CHECK(subject.lane == &env::cuda_lane);
      CHECK(env::tensors_of(subject).hidden_sizes.size() == 3);
      CHECK(env::hidden_rounds(subject) >= 3);
      CHECK(subject.baseline == env::baseline_kind::reference);
      CHECK_FALSE(subject.degenerate);
      CHECK(env::check_reference_text(subject).empty());
      // What is timed has to be made anew for every call: content known from a few elements is not.
      for (const env::input_spec& input : env::tensors_of(subject).inputs) {
        CHECK(input.dists[0] != env::distribution::sorted);
        CHECK(input.dists[0] != env::distribution::constant);
      }
      const auto file = test::source_dir() / "env/suites" / name / (subject.name + ".task.yaml");
      CHECK(base::read_file(file).value() == env::to_yaml(subject));
      auto all_sizes = env::tensors_of(subject).hidden_sizes;
      all_sizes.push_back(env::tensors_of(subject).sizes);
      for (const auto& sizes : all_sizes) {
        const auto at = env::instantiate(subject, sizes).value();
        CHECK(at.cost_bytes >= bytes_of(at.outputs));
        CHECK(at.cost_bytes <= bytes_of(at.outputs) + bytes_of(at.inputs));
        CHECK(bytes_of(at.outputs) + bytes_of(at.inputs) <= most_bytes_of_a_call);
      }
    }
  }
}

TEST_CASE("the cuda suite has sixty tasks of sixteen families and holds out whole families") {
  const env::suite all = shipped("cuda");
  std::set<std::string> families;
  std::set<std::string> held_out;
  std::set<env::dtype> types;
  for (const env::suite_member& member : all.members) {
    families.insert(member.task.family);
    if (member.held_out) held_out.insert(member.task.family);
    for (const env::input_spec& input : env::tensors_of(member.task).inputs)
      types.insert(input.type);
  }
  CHECK(all.members.size() >= 60);
  for (const auto* family :
       {"elementwise", "softmax", "masking", "norm", "reduction", "scan", "transpose",
        "convolution", "pooling", "matmul", "structured_matmul", "fused_matmul", "matrix_vector",
        "attention", "position", "gather_scatter", "histogram", "loss", "quantize"}) {
    CHECK_MESSAGE(families.contains(family), family);
  }
  CHECK(held_out == std::set<std::string>{"attention", "pooling", "position", "structured_matmul"});
  for (const auto type : {env::dtype::f32, env::dtype::bf16, env::dtype::f16, env::dtype::i32,
                          env::dtype::i64, env::dtype::u8}) {
    CHECK_MESSAGE(types.contains(type), env::name_of(type));
  }
}

TEST_CASE("the quick cuda suite has a dozen tasks, some of them held out") {
  const env::suite quick = shipped("cuda_quick");
  CHECK(quick.members.size() == 12);
  int held_out = 0;
  for (const env::suite_member& member : quick.members)
    held_out += member.held_out ? 1 : 0;
  CHECK(held_out == 3);
}

TEST_CASE("the cpu suite has two dozen tasks of ten families and holds out whole families") {
  const env::suite all = shipped("cpu");
  std::set<std::string> families;
  std::set<std::string> held_out;
  for (const env::suite_member& member : all.members) {
    families.insert(member.task.family);
    if (member.held_out) held_out.insert(member.task.family);
  }
  CHECK(all.members.size() >= 24);
  for (const auto* family :
       {"elementwise", "softmax", "norm", "reduction", "scan", "transpose", "stencil",
        "convolution", "matmul", "attention", "gather_scatter", "histogram"}) {
    CHECK_MESSAGE(families.contains(family), family);
  }
  CHECK(held_out == std::set<std::string>{"attention", "stencil"});
  CHECK(all.recheck_above_e2 == 3000);
}

TEST_CASE("the quick suite is eight compositions to train on and eight that are held out") {
  const env::suite quick = shipped("cpu_quick");
  REQUIRE(quick.members.size() == 16);
  std::set<base::hash128> skeletons;
  int held_out = 0;
  for (const env::suite_member& member : quick.members) {
    CAPTURE(member.task.name);
    const auto composition = env::composition_of_reference(member.task.reference);
    REQUIRE_MESSAGE(composition.has_value(), composition.error().message);
    // Constants do not tell compositions apart: no skeleton may stand on both sides.
    CHECK(skeletons.insert(env::skeleton_hash(*composition)).second);
    CHECK(env::family_of(*composition) == member.task.family);
    CHECK(member.task.baseline == env::baseline_kind::plain);
    held_out += member.held_out ? 1 : 0;
  }
  CHECK(held_out == 8);
}
