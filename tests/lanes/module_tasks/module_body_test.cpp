// The body of a task that is a Python module: files, ids, rules, and what is read off the text.
#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/pytorch/tasks/python_outline.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"
#include "env/prompt/prompt.hpp"
#include "env/task/task_codec.hpp"
#include "lanes/module_tasks/module_lane.hpp"
#include "support/test.hpp"

using namespace quern;
using test::contains;

namespace {

const char* const canonical_module = R"(quern_task: 1
name: level1_3_batched
lane: modules
family: level1
precision: bf16
tf32: true
needs: ["module einops", "weights facebook/opt-1.3b"]
place: {level: 1, problem: 3, file: "3_Batched.py"}
tolerance: {atol: 0.01, rtol: 0.01}
baseline: reference
reference: |
  import torch
  from einops import rearrange  # )"
                                     "\xE2\x89\xA5"
                                     R"( 1

  batch, width = 4, 8
  name = "facebook/opt-1.3b"
  config = load.from_pretrained(name)
  rows = 16

  class Model(torch.nn.Module):
      def __init__(self, width: int = 8, *, bias=(1, 2)):
          super().__init__()

      def forward(self, x, y=None, *rest):
          return x

  def get_inputs():
      return [torch.rand(batch, width)]
)";

env::task module_task() {
  const auto parsed = env::parse_task(canonical_module);
  REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error().message));
  return *parsed;
}

std::string refusal_of(std::string_view part, std::string_view other) {
  std::string text = canonical_module;
  REQUIRE(text.find(part) != std::string::npos);
  const auto parsed = env::parse_task(text.replace(text.find(part), part.size(), other));
  return parsed ? "accepted" : parsed.error().message;
}

}  // namespace

TEST_CASE("a module's task is read and written, and its id does not depend on how it was written") {
  const env::task subject = module_task();
  const env::pytorch_body& body = env::pytorch_of(subject);
  CHECK(body.precision == env::torch_precision::bf16);
  CHECK(body.tf32);
  REQUIRE(body.needs.size() == 2);
  CHECK(body.needs[0] == env::torch_need{env::torch_need::kind::module, "einops"});
  CHECK(body.needs[1] == env::torch_need{env::torch_need::kind::weights, "facebook/opt-1.3b"});
  REQUIRE(body.place.has_value());
  CHECK(*body.place == env::benchmark_place{1, 3, "3_Batched.py"});
  CHECK(env::to_yaml(subject) == canonical_module);
  CHECK(env::parse_task(env::to_yaml(subject)).value() == subject);

  std::string loose = canonical_module;
  loose.replace(loose.find("  rows = 16\n"), 12, "  rows = 16  \r\n");
  CHECK(env::task_id(env::parse_task(loose).value()) == env::task_id(subject));
  CHECK(env::module_lane.new_task("mine").has_value());
}

TEST_CASE("what the file leaves out is fp32 without TF32, and bodies differ by each field") {
  std::string text = canonical_module;
  const auto begin = text.find("precision:");
  text.erase(begin, text.find("tolerance:") - begin);
  const env::task plain = env::parse_task(text).value();
  const env::pytorch_body& body = env::pytorch_of(plain);
  CHECK(body.precision == env::torch_precision::fp32);
  CHECK_FALSE(body.tf32);
  CHECK(body.needs.empty());
  CHECK_FALSE(body.place.has_value());
  CHECK(contains(env::to_yaml(plain), "precision: fp32\ntf32: false\n"));
  const auto differs = [&](auto change) {
    auto other = std::make_shared<env::pytorch_body>(body);
    change(*other);
    env::task copy = plain;
    copy.body = other;
    REQUIRE(env::validate(copy).has_value());
    CHECK_FALSE(copy == plain);
    CHECK(env::task_id(copy) != env::task_id(plain));
    CHECK(env::parse_task(env::to_yaml(copy)).value() == copy);
  };
  differs([](env::pytorch_body& b) { b.precision = env::torch_precision::fp16; });
  differs([](env::pytorch_body& b) { b.tf32 = true; });
  differs([](env::pytorch_body& b) {
    b.needs.push_back({env::torch_need::kind::module, "numpy"});
  });
  differs([](env::pytorch_body& b) { b.place = env::benchmark_place{2, 1, "1_a b.py"}; });
  CHECK(env::usual_tolerance(env::torch_precision::fp32) == env::tolerance{1e-4, 1e-4});
  CHECK(env::usual_tolerance(env::torch_precision::fp16) == env::tolerance{1e-2, 1e-2});
}

TEST_CASE("what breaks a rule of the body is refused by name") {
  CHECK(contains(refusal_of("precision: bf16", "precision: bf61"),
                 "'precision' is 'bf61' (did you mean 'bf16'?); known are fp32, fp16, bf16"));
  CHECK(contains(refusal_of("tf32: true", "tf32: 1"), "must be true or false"));
  CHECK(contains(refusal_of("module einops", "einops"), "needs names 'einops': write `module"));
  CHECK(contains(refusal_of("module einops", "module a b"), "needs names 'a b': a name has 1 to"));
  CHECK(contains(refusal_of("module einops", "weights facebook/opt-1.3b"), "twice"));
  CHECK(contains(refusal_of("problem: 3", "problem: -3"), "'problem' is -3, it must be from 0"));
  CHECK(contains(refusal_of("problem: 3", "problem: 3, at: 1"), "unknown key 'at'"));
  CHECK(contains(refusal_of("3_Batched.py", ""), "place: file is ''"));
  CHECK(contains(refusal_of("baseline: reference", "baseline: plain"), "no plain kernel"));
  CHECK(contains(refusal_of("class Model(", "class Modell("), "no class Model at the left margin"));
  CHECK(contains(refusal_of("class Model(", "class ModelNew("), "as candidates have"));
  CHECK(contains(refusal_of("  def get_inputs", "      def get_inputs"), "no function get_inputs"));
}

TEST_CASE("references of this format are UTF-8 without control characters, others are ASCII") {
  const std::string sign = "\xE2\x89\xA5";
  CHECK(refusal_of(sign, "\xF0\x9F\x94\xAD") == "accepted");
  CHECK(refusal_of(sign, "\t") == "accepted");
  // What is no UTF-8 does not come through YAML, so the rule itself is asked.
  env::task subject = module_task();
  const std::string good = subject.reference;
  const std::string in_last_line =
      fmt::format("in line {}: ", 1 + std::count(good.begin(), good.end(), '\n'));
  for (const char* const bad :
       {"\xE2\x89", "\xC0\xAF", "\xED\xA0\x80", "\xFF", "\xF4\x90\x80\x80"}) {
    subject.reference = good + "# " + bad + "\n";
    const auto checked = env::validate(subject);
    REQUIRE_FALSE(checked.has_value());
    CHECK(contains(checked.error().message, "reference text has the byte 0x"));
    CHECK(contains(checked.error().message, "use UTF-8 without control characters"));
  }
  for (const std::string& bad :
       {std::string("\x01"), std::string("\x7F"), std::string("\r"), std::string("\f"),
        std::string("\xC2\x85"), std::string(1, '\0')}) {
    subject.reference = good + "# " + bad + "\n";
    REQUIRE_FALSE(env::validate(subject).has_value());
    CHECK(contains(env::validate(subject).error().message, in_last_line));
  }
  subject.reference = good + "# \xC2\xA0 \xEF\xBB\xBF \xE2\x80\xA8\n";
  REQUIRE(env::validate(subject).has_value());
  CHECK(env::parse_task(env::to_yaml(subject)).value() == subject);
  subject.reference = good + "#" + std::string(env::max_block_bytes, 'x') + "\n";
  CHECK(contains(env::validate(subject).error().message, "at most 65536 are allowed"));

  env::task ascii = env::parse_task(env::cpp_lane.new_task("rows").value()).value();
  ascii.reference += "# " + sign + "\n";
  REQUIRE_FALSE(env::validate(ascii).has_value());
  CHECK(contains(env::validate(ascii).error().message, "use printable ASCII only"));
}

TEST_CASE("prompts say what the text shows of arguments and sizes") {
  const env::task subject = module_task();
  const auto form = env::prompt_template::parse(
                        "quern_prompt: 1\nname: t\n---\n"
                        "{{task.signature}}; {{task.sizes}}\n{{task.inputs}}\n{{task.outputs}}")
                        .value();
  CHECK(env::render_prompt(form, subject, {}, {"module-text", {}}) ==
        "ModelNew(width=8, bias=(1,2)).forward(x, y=None, *rest); name = \"facebook/opt-1.3b\", "
        "rows = 16\n"
        "- x\n- *rest\n"
        "- as get_inputs() returns them, in order; floating ones as bf16, integers unchanged\n"
        "- as Model.forward returns them: same shapes and types (bf16)");
}

TEST_CASE("needs that the text shows and the file does not name are advice") {
  env::task subject = module_task();
  CHECK(subject.body->check_texts(subject).empty());
  subject.body = std::make_shared<env::pytorch_body>();
  const auto findings = subject.body->check_texts(subject);
  REQUIRE(findings.size() == 2);
  CHECK_FALSE(findings[0].fatal);
  CHECK(contains(findings[0].text, "the reference uses module einops"));
  CHECK(contains(findings[1].text, "weights facebook/opt-1.3b"));
  env::task other = env::parse_task(env::cpp_lane.new_task("rows").value()).value();
  CHECK_THROWS_WITH_AS((void)env::pytorch_of(other),
                       "task 'rows' is asked for a Python module, its body is tensors",
                       std::logic_error);
}

TEST_CASE("an outline sees definitions at the margin, and none in texts, comments and brackets") {
  const auto outline = env::outline_of(
      "\"\"\"\nclass Model:\n    pass\ndef get_inputs(): pass\n\"\"\"\n"
      "# class Model\n"
      "text = 'class Model' ; other: int = 3\n"
      "x = (\nclass_ ,\n'''\ndef get_inputs():\n'''\n)\n"
      "if True:\n    def hidden(): pass\n"
      "import os.path as p, numpy\nfrom . import sibling\nfrom a.b import c as d, \\\n    e\n"
      "async def later(): pass\n"
      "a == b\nfor i in x: y = 1\n"
      "@decorated\nclass Model: pass\n");
  CHECK(outline.classes == std::vector<std::string>{"Model"});
  CHECK(outline.functions == std::vector<std::string>{"later"});
  CHECK(outline.values == std::vector<std::string>{"text", "other", "x"});
  CHECK(outline.imported == std::vector<std::string>{"p", "numpy", "sibling", "d", "e"});
  CHECK(outline.modules == std::vector<std::string>{"a", "numpy"});
  CHECK(outline.defines("d"));
  CHECK_FALSE(outline.defines("get_inputs"));
  CHECK_FALSE(outline.defines("hidden"));
  // Strings that do not end, and ends of text at every place.
  for (const std::string text :
       {"'abc\nclass Model:", "\"\"\"abc\nclass Model:", "x = 'a\\", "class", "def", "def f(",
        "from", "import", "x =", "\\", "r'", "(((", ")))"})
    (void)env::outline_of(text);
  // Python refuses the text at its first line, so nothing behind it is defined.
  CHECK_FALSE(env::outline_of("'abc\nclass Model: pass").defines("Model"));
  CHECK_FALSE(env::outline_of("'''abc\nclass Model: pass").defines("Model"));
}
