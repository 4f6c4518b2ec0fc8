// Tasks of a lane without tensors in the code that serves all tasks: files, ids, rules, suites,
// prompts. And tasks whose body is not that of their lane.
#include <stdexcept>

#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/prompt/prompt.hpp"
#include "env/task/suite.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/task_instance.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "lanes/toy/toy_body.hpp"
#include "lanes/toy/toy_lane.hpp"
#include "support/test.hpp"

using namespace quern;
using test::contains;

namespace {

const char* const canonical_toy = R"(quern_task: 1
name: short_text
lane: toy
family: toys
word: kernel
tolerance: {atol: 0, rtol: 0.5}
baseline: reference
lines: 40
degenerate: true
reference: |
  Say it in few lines.
)";

env::task toy_task() {
  return env::parse_task(canonical_toy).value();
}

env::task cpp_task() {
  return env::parse_task(env::cpp_lane.new_task("rows").value()).value();
}

/// What is wrong with a file: the canonical one, with another text in the place of `part`.
std::string refusal_of(std::string_view part, std::string_view other) {
  std::string text = canonical_toy;
  const auto parsed = env::parse_task(text.replace(text.find(part), part.size(), other));
  return parsed ? "accepted" : parsed.error().message;
}

std::string rendered(const env::task& subject, const std::string& text) {
  const auto form = env::prompt_template::parse("quern_prompt: 1\nname: t\n---\n" + text).value();
  return env::render_prompt(form, subject, {}, {"toy-text", {}});
}

}  // namespace

TEST_CASE("a task without tensors is read, written and told from others by its own body") {
  const env::task subject = toy_task();
  CHECK(subject.lane == &env::toy_lane);
  CHECK(env::toy_of(subject).word == "kernel");
  CHECK(env::toy_of(subject).lines == 40);
  CHECK(env::to_yaml(subject) == canonical_toy);
  CHECK(env::parse_task(env::to_yaml(subject)).value() == subject);
  CHECK(env::task_id(subject) == env::task_id(toy_task()));
  CHECK(env::toy_lane.new_task("mine").has_value());
  CHECK_FALSE(env::toy_lane.new_task("No Name").has_value());
}

TEST_CASE("copies share a body, and equality compares its value") {
  const env::task subject = toy_task();
  env::task copy = subject;
  CHECK(copy.body == subject.body);
  CHECK(copy == subject);
  // Read again, the body is another object of the same value.
  CHECK(toy_task().body != subject.body);
  CHECK(toy_task() == subject);

  auto longer = std::make_shared<env::toy_body>(env::toy_of(subject));
  longer->lines = 41;
  copy.body = longer;
  CHECK_FALSE(copy == subject);
  CHECK(env::task_id(copy) != env::task_id(subject));
  CHECK(env::toy_of(subject).lines == 40);
  copy.body = cpp_task().body;
  CHECK_FALSE(copy == subject);
  copy.body = nullptr;
  CHECK_FALSE(copy == subject);
  CHECK_FALSE(subject == copy);
}

TEST_CASE("a file has the keys of its lane's body and no others") {
  CHECK(contains(refusal_of("lines: 40", "liness: 40"),
                 "unknown key 'liness' (did you mean 'lines'?); known are quern_task, name, lane, "
                 "family, word, tolerance, baseline, lines, degenerate, reference"));
  CHECK(contains(refusal_of("lines: 40", "sizes: {n: 4}"), "unknown key 'sizes'"));
  CHECK(contains(refusal_of("lines: 40\n", ""), "lacks the key 'lines'"));
  CHECK(contains(refusal_of("lines: 40", "lines: 0"), "lines is 0, it must be at least 1"));
  CHECK(contains(refusal_of("baseline: reference", "baseline: plain"), "no baseline 'plain'"));
  // Of lanes with tensors.
  CHECK(contains(refusal_of("lane: toy", "lane: cpp"), "unknown key 'word'"));
  // Of an unknown lane no keys are known. Without a lane, those of every lane are.
  CHECK(contains(refusal_of("lane: toy", "lane: toi\nlight: 1"),
                 "'lane' is 'toi' (did you mean 'toy'?)"));
  CHECK(
      contains(refusal_of("lane: toy", "lana: toy"), "unknown key 'lana' (did you mean 'lane'?)"));
  CHECK(contains(refusal_of("lane: toy\n", ""), "lacks the key 'lane'"));
}

TEST_CASE("a body that is not of the task's lane is refused by name, and never read as another") {
  env::task swapped = toy_task();
  swapped.body = cpp_task().body;
  const auto toy = env::validate(swapped);
  REQUIRE_FALSE(toy);
  CHECK(contains(toy.error().message,
                 "task 'short_text': its body is 'tensors', tasks of lane toy have 'toy'"));
  CHECK_THROWS_AS((void)env::toy_of(swapped), std::logic_error);

  swapped = cpp_task();
  swapped.body = toy_task().body;
  const auto tensors = env::validate(swapped);
  REQUIRE_FALSE(tensors);
  CHECK(contains(tensors.error().message,
                 "task 'rows': its body is 'toy', tasks of lane cpp have 'tensors'"));
  CHECK_THROWS_WITH_AS((void)env::tensors_of(swapped),
                       "task 'rows' is asked for tensors, its body is toy", std::logic_error);
  CHECK_THROWS_AS((void)env::instantiate(swapped, {}), std::logic_error);

  swapped.body = nullptr;
  const auto none = env::validate(swapped);
  REQUIRE_FALSE(none);
  CHECK(contains(none.error().message, "task 'rows': it has no body"));
  CHECK_THROWS_AS((void)env::tensors_of(swapped), std::logic_error);
}

TEST_CASE("prompts say what a body says of itself") {
  const env::task subject = toy_task();
  CHECK(rendered(subject, "{{task.signature}}; {{task.sizes}}; {{task.inputs}}") ==
        "a text with 'kernel'; 40 lines; none");
  CHECK(rendered(subject, "{{task.outputs}}, {{task.prototype}}, {{task.reference}}") ==
        "- a text, a text with kernel, Say it in few lines.");
}

TEST_CASE("a suite of them has no plain kernels, and its texts are checked without a run") {
  const auto suite = env::load_suite(test::source_dir() / "tests/lanes/toy/suite");
  REQUIRE_MESSAGE(suite.has_value(), (suite ? "" : suite.error().message));
  CHECK(suite->members.size() == 4);
  for (const env::suite_member& member : suite->members) {
    CHECK(member.task.lane == &env::toy_lane);
    CHECK_FALSE(member.task.body->has_plain());
    CHECK(member.task.body->check_texts(member.task).empty());
  }
  env::task told = toy_task();
  told.reference = "A kernel.\n";
  const auto findings = told.body->check_texts(told);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].rule == "told");
}
