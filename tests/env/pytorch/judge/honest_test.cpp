// Modules as people write them are ok on a core, and the files of candidates say what they are.
#include <set>

#include "modules_fixture.hpp"
#include "tools/benchmarks/bench_pytorch/module_files.hpp"

using namespace quern::test;
using namespace quern::test::modules;
namespace tools = quern::tools;

TEST_CASE("honest modules in many styles are ok on a core") {
  if (judge() == nullptr) return;
  const auto all = tools::read_honest_modules(source_dir());
  REQUIRE(all);
  int judged_here = 0;
  for (const tools::honest_module& one : *all) {
    if (!one.on_cores) continue;
    const verdict v = judged(one.source, one.subject);
    CAPTURE(one.name);
    CAPTURE(v.reason);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == "ok");
    ++judged_here;
  }
  CHECK(judged_here >= 40);
  // The control: one of them, and it is wrong.
  const auto at = std::find_if(all->begin(), all->end(), [](const tools::honest_module& one) {
    return one.name == "relu.clamp";
  });
  REQUIRE(at != all->end());
  std::string wrong = at->source;
  wrong.replace(wrong.find("(x, 0)"), 6, "(x, 1)");
  CHECK(name_of(judged(wrong, at->subject).kind) == "wrong_value");
}

TEST_CASE("honest modules are enough and each is a style of its own") {
  const auto all = tools::read_honest_modules(source_dir());
  REQUIRE(all);
  CHECK(all->size() >= 60);
  std::set<std::string> names, texts;
  std::size_t unsupported = 0;
  for (const tools::honest_module& one : *all) {
    names.insert(one.name);
    texts.insert(one.source);
    unsupported += one.is_supported ? 0 : 1;
    CHECK(contains(one.source, "class ModelNew"));
    CHECK_FALSE(one.style.empty());
  }
  CHECK(names.size() == all->size());
  CHECK(texts.size() == all->size());
  CHECK(unsupported == 2);
}

TEST_CASE("the head of a candidate's file is read, and what is wrong with one is told") {
  const std::vector<std::string> keys{"task", "style"};
  const auto read = tools::parse_headed("a.py", "# task: softmax\n# style: a, b: c\nimport torch\n",
                                        keys, {"task"});
  REQUIRE(read);
  CHECK(read->head.at("task") == "softmax");
  CHECK(read->head.at("style") == "a, b: c");
  CHECK(read->text == "import torch\n");
  const auto comment = tools::parse_headed("a.py", "# task: x\n# note: y\n", keys, {});
  REQUIRE(comment);
  CHECK(comment->text == "# note: y\n");
  const auto empty = tools::parse_headed("a.py", "# task: x", keys, {"task"});
  REQUIRE(empty);
  CHECK(empty->text.empty());
  const auto twice = tools::parse_headed("a.py", "# task: x\n# task: y\n", keys, {});
  REQUIRE_FALSE(twice);
  CHECK(contains(twice.error().message, "task is given twice"));
  const auto missing = tools::parse_headed("a.py", "import torch\n", keys, {"task"});
  REQUIRE_FALSE(missing);
  CHECK(contains(missing.error().message, "has no task"));
  const auto nowhere = tools::read_honest_modules("/no/such/tree");
  REQUIRE_FALSE(nowhere);
  CHECK(contains(nowhere.error().message, "--source"));
  CHECK_FALSE(tools::module_task_of("x", "# precision: fp8\nclass Model:\n    pass\n"));
}
