// Tasks as values: instances, validation, prototypes, hidden rounds.
#include "env/task/task.hpp"

#include <functional>
#include <string>

#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/prototype.hpp"
#include "support/tensor_task.hpp"
#include "support/test.hpp"

using namespace quern;
using env::distribution;
using env::dtype;
using test::contains;
using test::edit_tensors;

namespace {

env::size_expr expr(std::string_view text) {
  return env::size_expr::parse(text).value();
}

env::task sample_task() {
  env::task result;
  result.name = "sample";
  result.lane = &env::cpp_lane;
  result.family = "test";
  env::tensor_body& tensors = edit_tensors(result);
  tensors.size_names = {"n", "m"};
  tensors.sizes = {8, 16};
  tensors.hidden_sizes = {{3, 5}};
  tensors.inputs = {
      {"x",
       dtype::f32,
       {expr("n"), expr("m")},
       {distribution::normal, distribution::large, distribution::sparse},
       {}},
      {"idx", dtype::i64, {expr("n")}, {distribution::uniform, distribution::sorted}, expr("m")},
      {"c", dtype::f64, {}, {distribution::positive}, {}}};
  tensors.outputs = {{"y", dtype::f32, {expr("n"), expr("m-1")}},
                     {"count", dtype::u8, {expr("m")}}};
  result.tolerance = {1e-6, 1e-5};
  tensors.cost = {expr("4*n*m"), expr("n*m")};
  result.reference = "def forward(x, idx, c):\n    return x, idx\n";
  return result;
}

std::string refusal(const std::function<void(env::task&)>& spoil) {
  env::task broken = sample_task();
  spoil(broken);
  const auto checked = env::validate(broken);
  return checked ? "accepted" : checked.error().message;
}

}  // namespace

TEST_CASE("an instance has every number that a call needs") {
  const env::task subject = sample_task();
  REQUIRE(env::validate(subject).has_value());
  const auto at = env::instantiate(subject, env::tensors_of(subject).sizes);
  REQUIRE(at.has_value());
  CHECK(at->inputs[0].shape == std::vector<std::int64_t>{8, 16});
  CHECK(at->inputs[0].elements == 128);
  CHECK(at->inputs[0].bytes == 512);
  CHECK(at->inputs[1].bytes == 64);
  CHECK(at->inputs[1].below == 16);
  CHECK(at->inputs[2].shape.empty());
  CHECK(at->inputs[2].elements == 1);
  CHECK(at->inputs[2].bytes == 8);
  CHECK(at->outputs[0].shape == std::vector<std::int64_t>{8, 15});
  CHECK(at->outputs[1].bytes == 16);
  CHECK(at->cost_bytes == 512);
  CHECK(at->cost_flops == 128);
  const std::vector<std::int64_t> one_size{8};
  CHECK_FALSE(env::instantiate(subject, one_size).has_value());
}

TEST_CASE("hidden rounds show every hidden distribution") {
  const env::task subject = sample_task();
  CHECK(env::hidden_rounds(subject) == 2);
  using list = std::vector<distribution>;
  CHECK(env::timed_distributions(subject) ==
        list{distribution::normal, distribution::uniform, distribution::positive});
  CHECK(env::hidden_distributions(subject, 0) ==
        list{distribution::large, distribution::sorted, distribution::positive});
  CHECK(env::hidden_distributions(subject, 1) ==
        list{distribution::sparse, distribution::sorted, distribution::positive});
}

TEST_CASE("the prototype is the one of the contract") {
  env::task subject = sample_task();
  CHECK(subject.lane->entry(subject) ==
        "extern \"C\" void kernel(const float* x, const int64_t* idx, const double* c, float* y, "
        "uint8_t* count, "
        "int64_t n, int64_t m, void* workspace, void* stream)");
  CHECK(env::workspace_prototype(subject) ==
        "extern \"C\" int64_t workspace_bytes(int64_t n, int64_t m)");
  subject.lane = &env::cuda_lane;
  edit_tensors(subject).inputs[0].type = dtype::bf16;
  edit_tensors(subject).outputs[0].type = dtype::f16;
  CHECK(subject.lane->entry(subject) ==
        "extern \"C\" void kernel(const __nv_bfloat16* x, const int64_t* idx, const double* c, "
        "__half* y, "
        "uint8_t* count, int64_t n, int64_t m, void* workspace, cudaStream_t stream)");
}

TEST_CASE("validation names what is wrong") {
  CHECK(contains(refusal([](env::task& t) { t.name = "Big"; }), "no task name"));
  CHECK(contains(refusal([](env::task& t) { t.family = ""; }), "no family"));
  CHECK(contains(refusal([](env::task& t) { edit_tensors(t).size_names[0] = "int"; }),
                 "meaning in C++"));
  CHECK(contains(refusal([](env::task& t) { edit_tensors(t).inputs[0].name = "stream"; }),
                 "cannot name an argument"));
  CHECK(
      contains(refusal([](env::task& t) { edit_tensors(t).outputs[0].name = "x"; }), "used twice"));
  CHECK(contains(refusal([](env::task& t) { edit_tensors(t).inputs.clear(); }), "0 inputs given"));
  CHECK(
      contains(refusal([](env::task& t) { edit_tensors(t).outputs.clear(); }), "0 outputs given"));
  CHECK(contains(refusal([](env::task& t) { edit_tensors(t).inputs[0].type = dtype::bf16; }),
                 "not known in lane cpp"));
  CHECK(contains(refusal([](env::task& t) { edit_tensors(t).inputs[0].dists.clear(); }),
                 "no distribution"));
  CHECK(contains(
      refusal([](env::task& t) { edit_tensors(t).inputs[1].dists = {distribution::normal}; }),
      "cannot be 'normal'"));
  CHECK(contains(refusal([](env::task& t) {
                   edit_tensors(t).inputs[0].dists = {distribution::normal, distribution::normal};
                 }),
                 "twice"));
  CHECK(contains(refusal([](env::task& t) { edit_tensors(t).inputs[1].below.reset(); }),
                 "needs 'below'"));
  CHECK(contains(refusal([](env::task& t) { edit_tensors(t).inputs[0].below = expr("3"); }),
                 "is for integers"));
  CHECK(contains(refusal([](env::task& t) { edit_tensors(t).inputs[1].below = expr("m-16"); }),
                 "between 1 and"));
  CHECK(contains(refusal([](env::task& t) { edit_tensors(t).sizes[0] = 0; }), "at least 1"));
  CHECK(contains(refusal([](env::task& t) { edit_tensors(t).hidden_sizes[0] = {3}; }),
                 "values were given"));
  CHECK(contains(refusal([](env::task& t) {
                   edit_tensors(t).hidden_sizes[0] = {3, 1};
                 }),
                 "'m-1' is 0"));
  CHECK(contains(refusal([](env::task& t) {
                   edit_tensors(t).sizes = {1 << 20, 1 << 20};
                 }),
                 "make the sizes smaller"));
  CHECK(contains(refusal([](env::task& t) { t.tolerance.atol = -1; }), "tolerance -1"));
  CHECK(contains(refusal([](env::task& t) { edit_tensors(t).cost.bytes = expr("n-m"); }),
                 "negative"));
  CHECK(contains(refusal([](env::task& t) { t.reference = ""; }), "reference text is empty"));
  CHECK(contains(refusal([](env::task& t) { t.reference = "a\n\x01\n"; }), "byte 0x01 in line 2"));
  CHECK(contains(refusal([](env::task& t) { t.baseline = env::baseline_kind::plain; }),
                 "no 'plain' text"));
  CHECK(
      contains(refusal([](env::task& t) { edit_tensors(t).inputs[0].shape.assign(9, expr("1")); }),
               "9 dimensions"));
  CHECK(contains(refusal([](env::task& t) { edit_tensors(t).inputs[0].shape = {expr("q")}; }),
                 "not a size"));
  CHECK(refusal([](env::task&) {}) == "accepted");
}

TEST_CASE("tasks are equal where heads and bodies have equal values") {
  const env::task subject = sample_task();
  CHECK(sample_task() == subject);
  CHECK(sample_task().body != subject.body);
  const std::vector<std::function<void(env::task&)>> changes{
      [](env::task& t) { t.name = "other"; },
      [](env::task& t) { t.lane = &env::cuda_lane; },
      [](env::task& t) { t.family = "other"; },
      [](env::task& t) { t.tolerance.rtol = 0; },
      [](env::task& t) { t.baseline = env::baseline_kind::plain; },
      [](env::task& t) { t.degenerate = true; },
      [](env::task& t) { t.reference += "\n"; },
      [](env::task& t) { edit_tensors(t).size_names[0] = "k"; },
      [](env::task& t) { edit_tensors(t).sizes[0] = 9; },
      [](env::task& t) { edit_tensors(t).hidden_sizes.clear(); },
      [](env::task& t) { edit_tensors(t).inputs[0].dists.pop_back(); },
      [](env::task& t) { edit_tensors(t).outputs[1].type = dtype::i32; },
      [](env::task& t) { edit_tensors(t).cost.flops = expr("n"); },
      [](env::task& t) { edit_tensors(t).plain = "void kernel();\n"; },
      [](env::task& t) { t.body = nullptr; }};
  for (const auto& change : changes) {
    env::task other = subject;
    CHECK(other == subject);
    change(other);
    CHECK_FALSE(other == subject);
    CHECK_FALSE(subject == other);
  }
  // No copy was changed with another.
  CHECK(sample_task() == subject);
}

TEST_CASE("an id is the name and the hash of the canonical form") {
  const env::task subject = sample_task();
  const std::string id = env::task_id(subject);
  CHECK(env::task_name_of(id) == "sample");
  CHECK(env::task_hash_of(id).size() == 32);
  CHECK(env::task_name_of("plain") == "plain");
  CHECK(env::task_hash_of("plain").empty());
  env::task other = subject;
  other.tolerance.rtol *= 2;
  CHECK(env::task_id(other) != id);
  other = subject;
  auto& names = edit_tensors(other).size_names;
  std::swap(names[0], names[1]);
  CHECK(env::task_id(other) != id);
}
