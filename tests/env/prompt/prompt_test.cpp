// Templates and prompts: golden texts of the shipped templates, strictness, and what must never
// appear.
#include "env/prompt/prompt.hpp"

#include <functional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/random.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/new_task.hpp"
#include "support/tensor_task.hpp"
#include "support/test.hpp"

using namespace quern;
using env::exemplar;
using env::prompt_template;
using test::contains;

namespace {

constexpr std::string_view header = "quern_prompt: 1\nname: t\n---\n";

env::task sample() {
  return env::load_task(test::source_dir() / "tests/golden/task/gather_scale.canonical.yaml")
      .value();
}

env::task softmax() {
  env::task made = env::parse_task(env::cpp_lane.new_task("softmax_rows").value()).value();
  made.reference = "def forward(x):\n    return torch.softmax(x, -1)\n";
  made.baseline = env::baseline_kind::reference;
  return made;
}

const std::vector<exemplar> two{{"int slow;\n", 95}, {"int fast;\nint more;\n", 310}};

prompt_template shipped(std::string_view name) {
  const auto form =
      prompt_template::load(test::source_dir() / "env/prompts" / (std::string(name) + ".prompt"));
  REQUIRE_MESSAGE(form.has_value(), form.error().message);
  CHECK(form->name() == name);
  return *form;
}

std::string rendered(std::string_view body, const std::vector<exemplar>& shown) {
  const auto form = prompt_template::parse(std::string(header) + std::string(body));
  REQUIRE_MESSAGE(form.has_value(), form.error().message);
  return env::render_prompt(*form, sample(), shown, {"cpp-avx2", {"First.", "Second."}});
}

std::string error_of(std::string_view text) {
  const auto form = prompt_template::parse(text);
  return form ? "accepted" : form.error().message;
}

std::string body_error(std::string_view body) {
  return error_of(std::string(header) + std::string(body));
}

std::string golden(std::string_view name) {
  return base::read_file(test::source_dir() / "tests/golden/prompt" / name).value();
}

}  // namespace

TEST_CASE("placeholders stand for what they say") {
  CHECK(rendered("{{task.name}} {{ task.family }}", {}) == "gather_scale gather_scatter");
  CHECK(rendered("{{task.signature}}", {}) ==
        "table[n,m] rows:i32[k] factor:f64[] -> y[k,m] used:u8[(k+7)/8]");
  CHECK(rendered("{{task.sizes}}", {}) == "k = 512, n = 1000, m = 256");
  CHECK(rendered("{{task.inputs}}", {}) ==
        "- table: f32 [n, m]\n- rows: i32 [k], values from 0 to below n\n- factor: f64 []");
  CHECK(rendered("{{task.outputs}}", {}) == "- y: f32 [k, m]\n- used: u8 [(k+7)/8]");
  CHECK(rendered("{{task.tolerance}}", {}) == "0 + 1e-06 * |expected|");
  CHECK(rendered("{{lane}} {{language}} {{device_class}}: {{baseline}}", {}) ==
        "cpp C++20 cpp-avx2: a plain scalar kernel");
  CHECK(rendered("{{restrictions}}", {}) == "1. First.\n2. Second.");
  CHECK(rendered("{{task.prototype}};", {})
            .starts_with("extern \"C\" void kernel(const float* table"));
  CHECK(rendered("{{task.workspace}};", {})
            .starts_with("extern \"C\" int64_t workspace_bytes(int64_t k"));
}

TEST_CASE("exemplars are shown in the order given, or their absence is told") {
  const std::string body =
      "a\n{{#exemplars}}\n{{exemplar.number}} "
      "{{exemplar.score}}\n{{exemplar.code}}\n{{/exemplars}}\n"
      "{{#no_exemplars}}\nnone\n{{/no_exemplars}}\nb\n";
  CHECK(rendered(body, two) == "a\n1 0.95\nint slow;\n2 3.10\nint fast;\nint more;\nb\n");
  CHECK(rendered(body, {}) == "a\nnone\nb\n");
  CHECK(rendered("[{{#exemplars}}{{exemplar.number}},{{/exemplars}}]", two) == "[1,2,]");
  const std::vector<exemplar> wrong{{"int off;\n", 0, "wrong_value"}, two[0]};
  CHECK(rendered("{{#exemplars}}{{exemplar.score}},{{/exemplars}}", wrong) ==
        "0.00 (wrong_value),0.95,");
  CHECK(rendered("x {{#no_exemplars}}\nnone{{/no_exemplars}}", {}) == "x \nnone");
}

TEST_CASE("values are not templates") {
  const std::vector<exemplar> tricky{{"{{task.name}} {{#exemplars}}\n", 100}};
  CHECK(rendered("{{#exemplars}}{{exemplar.code}}{{/exemplars}}", tricky) ==
        "{{task.name}} {{#exemplars}}");
}

TEST_CASE("templates are read strictly") {
  CHECK(contains(error_of(""), "first line must be 'quern_prompt: 1'"));
  CHECK(contains(error_of("quern_prompt: 2\nname: t\n---\n"), "reads version 1"));
  CHECK(contains(error_of("quern_prompt: 1\n---\n"), "line 2"));
  CHECK(contains(error_of("quern_prompt: 1\nname: t\ntext"), "line 3"));
  CHECK(contains(body_error("{{task.nam}}"), "did you mean 'task.name'"));
  CHECK(contains(body_error("a\nb {{exemplar.code}}"), "line 5: 'exemplar.code' stands outside"));
  CHECK(contains(body_error("{{#exemplar}}"), "did you mean 'exemplars'"));
  CHECK(contains(body_error("{{#exemplars}}"), "never closed"));
  CHECK(contains(body_error("{{/exemplars}}"), "not open"));
  CHECK(contains(body_error("{{#exemplars}}{{#no_exemplars}}"), "do not nest"));
  CHECK(contains(body_error("{{#exemplars}}{{/no_exemplars}}"), "not open"));
  CHECK(contains(body_error("a {{ b"), "never closed"));
  CHECK(contains(body_error("{{}}"), "unknown placeholder ''"));
  CHECK(contains(error_of(std::string(header) + std::string(70000, 'x')), "at most 65536"));
  CHECK(body_error("single { braces } are text") == "accepted");
}

TEST_CASE("the hash is that of the file's bytes") {
  const auto one = prompt_template::parse(std::string(header) + "a").value();
  const auto other = prompt_template::parse(std::string(header) + "a ").value();
  CHECK(one.hash() != other.hash());
  CHECK(one.hash() == base::xxh128(std::string(header) + "a"));
}

TEST_CASE("the shipped templates give their golden prompts") {
  const env::prompt_facts facts{"cpp-avx2", env::default_restrictions(env::cpp_lane)};
  for (const auto* name : {"contrastive_full", "contrastive_demo"}) {
    const prompt_template form = shipped(name);
    CHECK(env::render_prompt(form, softmax(), two, facts) ==
          golden(std::string(name) + ".two.txt"));
    CHECK(env::render_prompt(form, softmax(), {}, facts) ==
          golden(std::string(name) + ".none.txt"));
  }
}

TEST_CASE("the rules follow lane and policy") {
  const auto count = [](const env::lane& where, const env::suite_policy& allowed) {
    return env::default_restrictions(where, allowed).size();
  };
  CHECK(count(env::cpp_lane, {}) == 7);
  CHECK(count(env::cpp_lane, {false, true, false, true}) == 6);
  CHECK(count(env::cuda_lane, {}) == 8);
  CHECK(count(env::cuda_lane, {true, true, true, true}) == 5);
  CHECK(count(env::cuda_lane, {false, false, false, false}) == 9);
}

TEST_CASE("hidden sizes and distributions never appear in a prompt") {
  env::task subject = softmax();
  test::edit_tensors(subject).hidden_sizes = {{7919, 7907}, {7901, 7883}};
  test::edit_tensors(subject).inputs[0].dists = {
      env::distribution::normal, env::distribution::denormal, env::distribution::sparse};
  const env::prompt_facts facts{"cpp-avx2", env::default_restrictions(env::cpp_lane)};
  for (const auto* name : {"contrastive_full", "contrastive_demo"}) {
    const std::string text = env::render_prompt(shipped(name), subject, two, facts);
    for (const auto* secret : {"7919", "7907", "7901", "7883", "denormal", "sparse"})
      CHECK_FALSE(contains(text, secret));
  }
}

TEST_CASE("the demo prompt adds little to the reference and the kernels that it shows") {
  const env::task subject = softmax();
  const std::vector<exemplar> shown{{env::tensors_of(subject).plain, 100},
                                    {env::tensors_of(subject).plain, 200}};
  const std::string text =
      env::render_prompt(shipped("contrastive_demo"), subject, shown, {"cpp-avx2", {}});
  CHECK(text.size() < subject.reference.size() + 2 * env::tensors_of(subject).plain.size() + 120);
}

TEST_CASE("mutated templates are read or refused, and what is read renders") {
  const std::string seed =
      base::read_file(test::source_dir() / "env/prompts/contrastive_full.prompt").value();
  const std::vector<std::string> parts{"{{",
                                       "}}",
                                       "{{#exemplars}}",
                                       "{{/exemplars}}",
                                       "{{task.name}}",
                                       "\n",
                                       "{{exemplar.code}}",
                                       "{{#no_exemplars}}",
                                       "{{/no_exemplars}}"};
  const env::task subject = softmax();
  int read = 0;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    base::random_stream random(13, "template_fuzz", {i});
    std::string text = seed;
    for (auto edits = 1 + random.below(3); edits > 0; --edits) {
      const std::size_t at = random.below(text.size() + 1);
      if (random.chance(0.5))
        text.insert(at, parts[random.below(parts.size())]);
      else
        text.erase(at, random.below(40));
    }
    const auto form = prompt_template::parse(text);
    if (!form) continue;
    ++read;
    REQUIRE(!env::render_prompt(*form, subject, two, {"cpp-avx2", {}}).empty());
    REQUIRE(!env::render_prompt(*form, subject, {}, {"cpp-avx2", {}}).empty());
  }
  CHECK(read > 500);
}
