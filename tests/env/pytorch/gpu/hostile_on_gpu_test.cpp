// Modules that are wrong or hostile on a GPU, and what gets through without the layer that stops
// them.
#include <set>

#include "device_fixture.hpp"
#include "tests/env/gpu/layer_switches.hpp"
#include "tests/env/pytorch/judge/bad_candidates.hpp"

using namespace quern::test;
using namespace quern::test::modules;
using quern::env::check_layer;
using enum quern::env::verdict_kind;

namespace {

/// Of a candidate that is to be convicted: the candidate's own fault, with a reward of 0.
bool is_own_fault(verdict_kind kind) {
  static const std::set<verdict_kind> own{wrong_value,   wrong_shape, wrong_dtype,
                                          runtime_error, hack,        nondeterministic,
                                          timeout,       oom,         compile_error};
  return own.contains(kind);
}

/// Fine on a GPU, or told there by other means: "a device that is not there" is there, a noise
/// within the tolerance is nobody's gain, and the memory that is asked for can be had.
bool is_of_cores_alone(const std::string& name) {
  static const std::set<std::string> those{"a device that is not there",
                                           "noise within the tolerance", "too much memory",
                                           "a loop without end"};
  return those.contains(name);
}

/// Ends the wait of its process for the device, so that it answers while it still computes.
const std::string waits_for_nothing =
    "        import module_child, gc\n"
    "        child = next(o for o in gc.get_objects() if isinstance(o, module_child.Child))\n"
    "        child.memory.wait = lambda: None\n";

const std::string computed = "        y = " + std::string(honest) + "\n";

struct device_hostile {
  std::string name, source;
  std::optional<check_layer> without;  ///< it gets through without this layer
};

std::vector<device_hostile> device_hostiles() {
  const auto with = [](const std::string& lines, const std::string& result = "y") {
    return candidate(result, "", lines);
  };
  const std::string finds_outputs =
      "        import module_child, gc\n"
      "        child = next(o for o in gc.get_objects() if isinstance(o, module_child.Child))\n"
      "        out = child.call_views(0)[1][0]\n"
      "        def over(address, elements):\n"
      "            s = torch._C._construct_storage_from_data_pointer(address, x.device, 4 * "
      "elements)\n"
      "            return torch.empty(0, device=x.device).set_(s, 0, (elements,), (1,))\n";
  return {
      {"the first result for ever",
       with("        if not hasattr(self, 'kept'): self.kept = " + std::string(honest) + "\n",
            "self.kept"),
       check_layer::values},
      {"a graph that does not copy its inputs",
       with("        if not hasattr(self, 'graph'):\n"
            "            static = x.clone()\n"
            "            self.linear(static)\n"
            "            torch.cuda.synchronize()\n"
            "            self.graph = torch.cuda.CUDAGraph()\n"
            "            with torch.cuda.graph(self.graph):\n"
            "                self.out = torch.relu(self.linear(static)) * self.scale * factor + "
            "self.shift\n"
            "            self.keep = static\n"
            "        self.graph.replay()\n",
            "self.out"),
       check_layer::values},
      {"inputs are changed", with(computed + "        x.zero_()\n"), std::nullopt},
      {"words behind a result",
       with(computed + finds_outputs +
            "        over(out.data_ptr() + 4 * ((out.numel() + 63) // 64 * 64), 8).fill_(7.0)\n"),
       check_layer::guards},
      {"words before a result",
       with(computed + finds_outputs + "        over(out.data_ptr() - 64, 8).fill_(7.0)\n"),
       check_layer::guards},
      {"memory that nobody wrote",
       with("        torch.empty(24, 32, device=x.device).fill_(1)\n",
            "torch.empty(24, 32, device=x.device)"),
       check_layer::values},
      {"a result on the host", with(computed, "y.cpu()"), std::nullopt},
      {"nothing is delivered",
       candidate("x[:, :32]",
                 "import module_child\nmodule_child.Child.deliver = lambda *a: None\n"),
       check_layer::values},
      {"a fault on the device",
       with("        index = torch.full((1,), 1 << 40, device=x.device)\n" + computed +
            "        y[0, 0] = x.reshape(-1)[index][0]\n"),
       std::nullopt},
  };
}

}  // namespace

TEST_CASE("what is wrong, malformed or hostile on a core is so on a GPU") {
  if (device_judge() == nullptr) return;
  int tried = 0;
  for (const auto& list :
       {wrong_candidates(), malformed_candidates(), hostile_candidates(),
        reaching_candidates({std::filesystem::temp_directory_path().string(), listening_port()})})
    for (const bad_candidate& one : list) {
      if (is_of_cores_alone(one.name)) continue;
      const verdict v = judged_on_device(one.source);
      CAPTURE(one.name);
      CAPTURE(name_of(v.kind));
      CAPTURE(v.detail);
      CHECK(is_own_fault(v.kind));
      CHECK_FALSE(v.speedup_e2.has_value());
      ++tried;
    }
  MESSAGE(tried << " kinds");
}

TEST_CASE("what a GPU makes possible is caught, and gets through without its layer") {
  if (device_judge() == nullptr) return;
  for (const device_hostile& one : device_hostiles()) {
    CAPTURE(one.name);
    const verdict v = judged_on_device(one.source);
    CAPTURE(name_of(v.kind));
    CAPTURE(v.detail);
    CHECK(is_own_fault(v.kind));
    if (!one.without) continue;
    turn(*one.without, false);
    const verdict through = judged_on_device(one.source);
    turn(*one.without, true);
    CAPTURE(through.detail);
    CHECK(name_of(through.kind) == "ok");
  }
}

TEST_CASE("a module that answers before its work is done gains nothing by it") {
  if (device_judge() == nullptr) return;
  const auto subject = task_of(wide());
  // Hundred times the work, in one launch, and an answer that does not wait for it.
  const std::string early =
      candidate("y", "",
                waits_for_nothing + computed +
                    "        if not hasattr(self, 'big'):\n"
                    "            self.big = torch.ones(8192, 8192, device=x.device)\n"
                    "            self.other = torch.empty_like(self.big)\n"
                    "        torch.mm(self.big, self.big, out=self.other)\n");
  const auto gains = [](const verdict& v) { return v.kind == ok && v.speedup_e2.value_or(0) > 60; };
  const verdict v = judged_on_device(early, true, subject);
  CAPTURE(name_of(v.kind));
  CAPTURE(v.detail);
  CAPTURE(v.speedup_e2.value_or(-1));
  CHECK_FALSE(gains(v));
  // The control.
  turn(check_layer::charge, false);
  turn(check_layer::values, false);
  turn(check_layer::floor, false);
  const verdict through = judged_on_device(early, true, subject);
  for (const auto layer : {check_layer::charge, check_layer::values, check_layer::floor})
    turn(layer, true);
  CAPTURE(name_of(through.kind));
  CAPTURE(through.detail);
  CHECK(gains(through));
}

TEST_CASE("a module that keeps the device busy or takes its memory harms nobody behind it") {
  if (device_judge() == nullptr) return;
  // Some seconds, at the clock of any device.
  const std::string busy =
      candidate("y", "", waits_for_nothing + computed + "        torch.cuda._sleep(1 << 33)\n");
  (void)judged_on_device(busy);
  CHECK(name_of(judged_on_device(candidate(honest)).kind) == "ok");
  const std::string greedy =
      candidate("y", "",
                computed +
                    "        free, _ = torch.cuda.mem_get_info()\n"
                    "        self.all = torch.empty(free - (1 << 30), dtype=torch.uint8, "
                    "device=x.device)\n");
  (void)judged_on_device(greedy);
  CHECK(name_of(judged_on_device(candidate(honest)).kind) == "ok");
}
