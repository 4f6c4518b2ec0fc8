// Weights of models on a GPU: where constructors draw them, and how candidates get those of the
// reference. On a device that is none, which draws other numbers than a core does.
#include "tests/env/pytorch/gpu/fake_fixture.hpp"

using namespace quern;
using namespace quern::env;
using namespace quern::test;
using namespace quern::test::modules;

namespace {

/// The layered reference as a candidate whose weights have names of its own, so that it must have
/// drawn the numbers of the reference. `first`: at the beginning of its constructor.
std::string with_own_names(const std::string& first = {}) {
  std::string text = candidate("torch.relu(self.inner(x)) * self.factors * factor + self.offset",
                               "import module_child");
  const auto put = [&](const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  };
  put("super().__init__()\n", "super().__init__()\n" + first);
  put("self.linear = ", "self.inner = ");
  put("register_buffer(\"scale\"", "register_buffer(\"factors\"");
  put("self.shift = ", "self.offset = ");
  return text;
}

/// As one that has no tensors of the device, or wants them in numpy.
const char* const not_on_a_device =
    "        if hasattr(torch, 'is_drawing'):\n            raise TypeError('not on a device')\n";

/// As one that draws into torch.Tensor(3, 4): its tensors are on a core wherever it is made.
const char* const draws_there_itself =
    "        if hasattr(torch, 'is_drawing'):\n"
    "            torch.manual_seed(torch.initial_seed() ^ 1)\n"
    "            torch.drawn_on_core = 1\n";

/// Another task each time: where its numbers are drawn stays with a task.
std::shared_ptr<const task> fresh_task(const std::string& name, std::string reference = layered) {
  return task_of(std::move(reference) + "\n# " + name + "\n");
}

bool draws_on_core(const std::shared_ptr<const task>& of) {
  const auto made = device_that_is_none()->manager->get(of);
  REQUIRE(made);
  return (*made)->making.draws_on_core;
}

}  // namespace

TEST_CASE("weights with names of their own are those of the reference, drawn in the same order") {
  if (device_that_is_none() == nullptr) return;
  const auto of = fresh_task("own names");
  const verdict v = judged_by_fake(with_own_names(), false, of);
  CAPTURE(v.detail);
  CHECK(name_of(v.kind) == "ok");
  CHECK_FALSE(draws_on_core(of));
  // Other draws before them are other numbers.
  const verdict other = judged_by_fake(with_own_names("        torch.rand(3)\n"), false, of);
  CHECK(name_of(other.kind) == "wrong_value");
}

TEST_CASE("a constructor that does not run on the device has the reference draw on a core, too") {
  if (device_that_is_none() == nullptr) return;
  const auto of = fresh_task("not on a device");
  // With the names of the reference it takes all of its weights, wherever they were drawn.
  std::string same_names = candidate(honest);
  same_names.insert(same_names.find("super().__init__()\n") + 19, not_on_a_device);
  CHECK(name_of(judged_by_fake(same_names, false, of).kind) == "ok");
  CHECK_FALSE(draws_on_core(of));
  const verdict v = judged_by_fake(with_own_names(not_on_a_device), false, of);
  CAPTURE(v.detail);
  CHECK(name_of(v.kind) == "ok");
  CHECK(draws_on_core(of));
  // Whoever comes next to the task draws there, too.
  CHECK(name_of(judged_by_fake(with_own_names(), false, of).kind) == "ok");

  // The control: where a process keeps to itself that it drew elsewhere, its numbers are others.
  const std::string silent =
      "taken = module_child.Child.take_weights\n"
      "module_child.Child.take_weights = lambda self, asked: (taken(self, asked)[0], 0, 0)\n";
  std::string keeps_it = with_own_names(not_on_a_device);
  keeps_it.insert(keeps_it.find("\nclass ModelNew(") + 1, silent);
  CHECK(name_of(judged_by_fake(keeps_it, false, fresh_task("silent")).kind) == "wrong_value");
}

TEST_CASE(
    "a constructor that draws on a core wherever it is made has the reference draw there, too") {
  if (device_that_is_none() == nullptr) return;
  const auto of = fresh_task("draws there itself");
  CHECK(name_of(judged_by_fake(with_own_names(), false, of).kind) == "ok");
  CHECK_FALSE(draws_on_core(of));
  const verdict v = judged_by_fake(with_own_names(draws_there_itself), false, of);
  CAPTURE(v.detail);
  CHECK(name_of(v.kind) == "ok");
  CHECK(draws_on_core(of));

  // Where they are not seen, the wrong result has both draw there.
  std::string unseen = draws_there_itself;
  unseen.replace(unseen.find("torch.drawn_on_core = 1"), 23, "pass");
  const verdict late = judged_by_fake(with_own_names(unseen), false, fresh_task("unseen"));
  CHECK(name_of(late.kind) == "ok");
  CHECK(late.checks.front().detail == "both sides drew on a core");
}

TEST_CASE("a reference whose constructor does not run on the device draws on a core") {
  if (device_that_is_none() == nullptr) return;
  std::string reference = layered;
  reference.insert(reference.find("super().__init__()\n") + 19, not_on_a_device);
  const auto of = fresh_task("reference", reference);
  const verdict v = judged_by_fake(with_own_names(), false, of);
  CAPTURE(v.detail);
  CHECK(name_of(v.kind) == "ok");
  CHECK(draws_on_core(of));
}

TEST_CASE("a candidate that writes over the weights that it was lent harms nobody behind it") {
  if (device_that_is_none() == nullptr) return;
  const auto of = fresh_task("written over");
  const std::string writes =
      "        import ctypes, gc\n"
      "        lent = [one.regions[2] for one in gc.get_objects() if type(one) is "
      "module_child.Child]\n"
      "        ctypes.memset(lent[0], 0, 1 << 12)\n";
  const verdict v = judged_by_fake(candidate(honest, "import module_child", writes), false, of);
  CAPTURE(v.detail);
  CHECK(name_of(v.kind) == "ok");  // its own model had them by then
  CHECK(name_of(judged_by_fake(candidate(honest), false, of).kind) == "ok");
  // A task that is judged again has its weights again.
  CHECK(name_of(judged_by_fake(candidate(honest), false, fresh_task("between")).kind) == "ok");
  CHECK(name_of(judged_by_fake(candidate(honest), false, of).kind) == "ok");
  CHECK(name_of(judged_by_fake(with_own_names(), false, of).kind) == "ok");
}

TEST_CASE(
    "a draw that holds two of the reference's is judged with numbers of a core, where it is "
    "equal") {
  if (device_that_is_none() == nullptr) return;
  // On the device that is none a candidate that says `halves` gets other numbers, as of a GPU.
  const std::string halves =
      "        if hasattr(torch, 'is_drawing'):\n            torch.manual_seed(99)\n";
  const auto of = fresh_task("one draw for two");
  const verdict v = judged_by_fake(with_own_names(halves), false, of);
  CAPTURE(v.detail);
  CHECK(name_of(v.kind) == "ok");
  CHECK(v.checks.front().detail == "both sides drew on a core");
  CHECK(draws_on_core(of));
}

TEST_CASE(
    "a process that says at each start that it drew elsewhere has the task drawn on a core once") {
  if (device_that_is_none() == nullptr) return;
  const auto of = fresh_task("late");
  const std::string lies =
      "construct = module_child.Child.construct\n"
      "def lying(self, asked):\n"
      "    answer = construct(self, asked)\n"
      "    return answer | {'drawn_elsewhere': True}\n"
      "module_child.Child.construct = lying\n";
  const verdict v = judged_by_fake(candidate(honest, "import module_child\n" + lies), true, of,
                                   parse_measure_name("paired/1@graph").value());
  CAPTURE(v.detail);
  CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
}

TEST_CASE("weights that a constructor changes on purpose are judged as it made them") {
  if (device_that_is_none() == nullptr) return;
  const auto folded = [](const std::string& factor) {
    std::string text = candidate("torch.relu(self.linear(x)) * factor + self.shift");
    const std::string from = "self.shift = torch.rand(features)\n";
    text.insert(text.find(from) + from.size(),
                "        with torch.no_grad():\n"
                "            self.linear.weight.mul_(self.scale" +
                    factor +
                    "[:, None])\n"
                    "            self.linear.bias.mul_(self.scale" +
                    factor + ")\n");
    return text;
  };
  const verdict v = judged_by_fake(folded(""), true);
  CAPTURE(v.detail);
  CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
  REQUIRE_FALSE(v.checks.empty());
  CHECK(v.checks.front().detail == "as its constructor made them");
  // Where its constructor does not run on the device, both sides draw on a core.
  const auto of = fresh_task("folded on a core");
  std::string on_core = folded("");
  on_core.insert(on_core.find("super().__init__()\n") + 19, not_on_a_device);
  CHECK(name_of(judged_by_fake(on_core, false, of).kind) == "ok");
  CHECK(draws_on_core(of));
  // The control: what is changed wrongly is wrong either way, and told as it was seen first.
  CHECK(name_of(judged_by_fake(folded(".add(0.1)")).kind) == "wrong_value");
  // Another order of draws is mended by the names.
  std::string other_order = candidate(honest);
  other_order.insert(other_order.find("super().__init__()\n") + 19, "        torch.rand(5)\n");
  const verdict by_name = judged_by_fake(other_order);
  CHECK(name_of(by_name.kind) == "ok");
  CHECK(by_name.checks.front().name != "weights");
}

TEST_CASE("weights without elements need no memory, and are taken by their names") {
  if (device_that_is_none() == nullptr) return;
  const std::string reference = R"(
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.empty = torch.nn.Parameter(torch.zeros(0, 3))
        self.register_buffer("none", torch.zeros(4, 0, dtype=torch.bool))

    def forward(self, x):
        return x + self.empty.sum() + self.none.sum()

def get_inputs():
    return [torch.rand(8, 8)]
)";
  const auto of = task_of(reference);
  const auto with_result = [&](const std::string& result) {
    std::string text = reference;
    text.replace(text.find("class Model("), 12, "class ModelNew(");
    const std::string old = "x + self.empty.sum() + self.none.sum()";
    text.replace(text.find(old), old.size(), result);
    return text;
  };
  for (const char* result : {"self.empty.sum() + x + self.none.sum()", "x.clone()"}) {
    const verdict v = judged_by_fake(with_result(result), false, of);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == "ok");
  }
  CHECK(name_of(judged_by_fake(with_result("x + 1"), false, of).kind) == "wrong_value");
}

TEST_CASE("a device without room for what empties its cache is an error before any call") {
  auto* with = device_that_is_none();
  if (with == nullptr) return;
  device_context& context = with->manager->context();
  const module_places places({});
  module_memory memory(context, 7);
  ::setenv("QUERN_TEST_DEVICE_REFUSES", std::to_string(2 * context.facts().l2_bytes).c_str(), 1);
  const auto refused = memory.reserve(places, 1, 0, 0);
  ::unsetenv("QUERN_TEST_DEVICE_REFUSES");
  REQUIRE_FALSE(refused);
  CHECK(contains(refused.error().message, "GPU 0: "));
  CHECK(memory.flush().empty());
  // It is asked for again with the next task.
  REQUIRE(memory.reserve(places, 1, 0, 0));
  CHECK(memory.flush().bytes() >= 2 * context.facts().l2_bytes);
}
