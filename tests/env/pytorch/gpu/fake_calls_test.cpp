// What is copied between the calls of a window, on a device that is none, and who is caught by it.
#include <cstring>
#include <map>
#include <vector>

#include <dlfcn.h>

#include "env/lanes/pytorch/gpu/call_copies.hpp"
#include "tests/env/gpu/layer_switches.hpp"
#include "tests/env/pytorch/gpu/fake_fixture.hpp"

using namespace quern;
using namespace quern::env;
using namespace quern::test;
using namespace quern::test::modules;

namespace {

constexpr std::size_t calls = 3;

/// Memory for calls with inputs and outputs of so many numbers; the device's memory is the host's.
struct copied_calls {
  std::unique_ptr<device_context> context;
  module_places places;
  module_memory memory;
  base::random_stream random{5, "copies"};
  call_copies copies;

  copied_calls(std::int64_t inputs, std::int64_t outputs)
      : context(open()),
        places(instance(inputs, outputs)),
        memory(*context, 9),
        copies(places, *context, memory) {
    REQUIRE(memory.reserve(places, calls, 0, 0));
  }

  static std::unique_ptr<device_context> open() {
    auto opened = device_context::open(0, program_dir() / "libquern_fake_device.so");
    REQUIRE(opened);
    return std::move(*opened);
  }
  static tensor_layout layout(std::int64_t elements) {
    tensor_layout one;
    one.shape = {elements};
    one.elements = elements;
    one.bytes = elements * 4;
    return one;
  }
  static task_instance instance(std::int64_t inputs, std::int64_t outputs) {
    task_instance at;
    if (inputs > 0) at.inputs = {layout(inputs), layout(1)};
    at.outputs = {layout(outputs)};
    return at;
  }
  [[nodiscard]] std::uint64_t stride() const { return places.inputs.stride(); }
  static std::uint8_t* bytes(std::uint64_t address) {
    return reinterpret_cast<std::uint8_t*>(address);
  }
  /// Bytes of these that are other than in the staging.
  [[nodiscard]] std::uint64_t missing(std::size_t call) const {
    std::uint64_t count = 0;
    const std::uint64_t at = call * stride();
    for (std::uint64_t i = 0; i < stride(); ++i)
      count += bytes(memory.candidate_inputs() + at)[i] != bytes(memory.staging() + at)[i];
    return count;
  }
  /// New content for a window, in which no byte is what it was.
  void make(std::uint8_t number) {
    for (std::uint64_t i = 0; i < calls * stride(); ++i)
      bytes(memory.staging())[i] = static_cast<std::uint8_t>(number + i % 7);
    REQUIRE(copies.take(memory.staging(), calls, random));
    copies.put_rest(memory.candidate_inputs());
    REQUIRE(context->wait());
  }
  void before_call(std::size_t call) {
    copies.before_call(call, {memory.candidate_inputs(), memory.candidate_outputs()});
  }
};

}  // namespace

TEST_CASE("before its question a part of a call's inputs is not there; then all of them are") {
  for (const std::int64_t elements : {1, 700, 60'000, 70'000, 300'000, 3'000'001}) {
    CAPTURE(elements);
    copied_calls of(elements, 10);
    const bool is_small = of.stride() <= most_late_bytes;
    for (std::uint8_t window = 1; window < 6; ++window) {
      of.make(static_cast<std::uint8_t>(20 * window));
      for (std::size_t call = 0; call < calls; ++call) {
        for (std::size_t later = call; later < calls; ++later) {
          const std::uint64_t missing = of.missing(later);
          CHECK(missing <= most_late_bytes);
          CHECK(missing >= (is_small ? of.stride() / 256 * 256 : most_late_bytes / 2));
        }
        of.before_call(call);
        CHECK(of.missing(call) == 0);
      }
      REQUIRE(of.context->wait());
    }
  }
}

namespace {

/// Bytes of the call under test that were missing behind each of its waits.
std::vector<std::uint64_t> missing_behind_waits;
copied_calls* under_test = nullptr;
std::size_t call_under_test = 0;

/// Calls of so many windows that paused; what was missing at their first wait, and at their last.
int pauses_of(copied_calls& of, int windows) {
  void* library = ::dlopen((program_dir() / "libquern_fake_device.so").c_str(), RTLD_NOW);
  REQUIRE(library != nullptr);
  const auto hear =
      reinterpret_cast<void (*)(void (*)())>(::dlsym(library, "quern_fake_behind_copies"));
  const bool is_there = hear != nullptr;
  REQUIRE(is_there);
  under_test = &of;
  int pauses = 0;
  for (int window = 0; window < windows; ++window) {
    // Lines that stand in the place of others differ from these.
    for (std::uint64_t i = 0; i < calls * of.stride(); ++i)
      of.bytes(of.memory.staging())[i] = static_cast<std::uint8_t>(window + i / 64 * 7 + i % 3);
    REQUIRE(of.copies.take(of.memory.staging(), calls, of.random));
    of.copies.put_rest(of.memory.candidate_inputs());
    REQUIRE(of.context->wait());
    for (std::size_t call = 0; call < calls; ++call) {
      call_under_test = call;
      missing_behind_waits.clear();
      hear([] { missing_behind_waits.push_back(under_test->missing(call_under_test)); });
      of.before_call(call);
      hear(nullptr);
      CHECK(missing_behind_waits.back() == 0);
      if (missing_behind_waits.size() == 1) continue;
      ++pauses;
      CHECK(missing_behind_waits.size() == 2);
      CHECK(missing_behind_waits.front() >= 64);
      CHECK(missing_behind_waits.front() <= most_last_lines * late_line);
    }
  }
  return pauses;
}

}  // namespace

TEST_CASE("some calls pause with last lines in the place of others, and none without the layer") {
  for (const std::int64_t elements : {700, 300'000}) {
    CAPTURE(elements);
    copied_calls of(elements, 10);
    const int pauses = pauses_of(of, 100);  // of 300 calls; 18 or 19 are expected
    CHECK(pauses > 3);
    CHECK(pauses < 50);
    turn(check_layer::pause, false);
    CHECK(pauses_of(of, 30) == 0);
    turn(check_layer::pause, true);
  }
}

TEST_CASE("without the layer all inputs lie there before the first question") {
  copied_calls of(300'000, 10);
  turn(check_layer::late, false);
  of.make(20);
  turn(check_layer::late, true);
  for (std::size_t call = 0; call < calls; ++call)
    CHECK(of.missing(call) == 0);
}

namespace {

/// Which calls of so many windows are said to have written behind their answers, where call `late`
/// does so in each; how often.
std::map<std::size_t, int> told(copied_calls& of, std::size_t late) {
  std::map<std::size_t, int> found;
  const auto bytes = static_cast<std::size_t>(of.places.at.outputs[0].bytes);
  for (int window = 0; window < 100; ++window) {
    REQUIRE(of.copies.take(of.memory.staging(), calls, of.random));
    const auto outputs = [&](std::size_t call) {
      return of.bytes(of.memory.candidate_outputs() + call * of.places.outputs.stride() +
                      of.places.outputs.offset(0));
    };
    for (std::size_t call = 0; call < calls; ++call) {
      of.before_call(call);
      std::memset(outputs(call), call == late ? 1 : 2, bytes);
    }
    if (late < calls) std::memset(outputs(late), 2, bytes);
    const auto call = of.copies.changed_behind_its_answer(of.memory.candidate_outputs()).value();
    if (call) ++found[*call];
  }
  return found;
}

}  // namespace

TEST_CASE("what is written behind an answer is found in one window of four, but of the last call") {
  for (const std::int64_t inputs : {0, 50})
    for (const std::int64_t elements : {1, 900, 200'000}) {
      CAPTURE(inputs);
      CAPTURE(elements);
      copied_calls of(inputs, elements);
      for (const std::size_t late : {std::size_t{0}, std::size_t{1}}) {
        const auto found = told(of, late);
        REQUIRE(found.size() == 1);
        CHECK(found.begin()->first == late);
        CHECK(found.begin()->second > 5);
        CHECK(found.begin()->second < 60);
      }
      CHECK(told(of, calls - 1).empty());
      CHECK(told(of, calls).empty());
    }
}

namespace {

/// Of a module under test: the process's own Child and the number of the call.
const std::string finds_its_child =
    "        import gc, sys, module_child\n"
    "        child = next(o for o in gc.get_objects() if isinstance(o, module_child.Child))\n"
    "        frame = sys._getframe()\n"
    "        while 'call' not in frame.f_locals:\n"
    "            frame = frame.f_back\n"
    "        call = frame.f_locals['call']\n"
    "        def of(x):\n"
    "            return " +
    std::string(honest) + "\n";

}  // namespace

TEST_CASE("a module that computes all calls of a window in the first of them is wrong") {
  if (device_that_is_none() == nullptr) return;
  const std::string batches =
      candidate("self.all[call] if call < 8 else of(x)", {},
                finds_its_child +
                    "        if call == 0 or not hasattr(self, 'all'):\n"
                    "            self.all = [of(child.call_views(k)[0][0]) for k in range(8)]\n");
  const verdict v = judged_by_fake(batches, true);
  CAPTURE(v.detail);
  CHECK(name_of(v.kind) == "wrong_value");
  turn(check_layer::late, false);
  const verdict through = judged_by_fake(batches, true);
  turn(check_layer::late, true);
  CAPTURE(through.detail);
  CHECK((through.kind == verdict_kind::ok || through.kind == verdict_kind::noisy));
}

TEST_CASE("a module that delivers a call's results in the next one is told so") {
  if (device_that_is_none() == nullptr) return;
  const std::string defers =
      candidate("y", {},
                finds_its_child +
                    "        y = of(x)\n"
                    "        if call == 1:\n"
                    "            self.kept, y = y, torch.zeros_like(y)\n"
                    "        if call == 2:\n"
                    "            child.call_views(1)[1][0].copy_(self.kept)\n");
  const verdict v = judged_by_fake(defers, true);
  CAPTURE(v.detail);
  CHECK(name_of(v.kind) == "hack");
  CHECK(v.reason == "late_write");
  turn(check_layer::sample, false);
  const verdict through = judged_by_fake(defers, true);
  turn(check_layer::sample, true);
  CAPTURE(through.detail);
  CHECK((through.kind == verdict_kind::ok || through.kind == verdict_kind::noisy));
}

TEST_CASE(
    "under a protocol that measures the reference first no delivery brings a candidate inputs") {
  if (device_that_is_none() == nullptr) return;
  // It looks, when it delivers once more, whether the inputs of the call before still lie there,
  // and is wrong from then on where they do not.
  const std::string looks = candidate(
      "y * 2 if getattr(child, 'saw', False) else y", {},
      finds_its_child +
          "        y = of(x)\n"
          "        if not hasattr(child, 'looks'):\n"
          "            child.looks, again = True, child.deliver_again\n"
          "            def deliver_again():\n"
          "                again()\n"
          "                if not bool((child.call_views(0)[0][0] == child.seen).all()):\n"
          "                    child.saw = True\n"
          "            child.deliver_again = deliver_again\n"
          "        if call == 0:\n"
          "            child.seen = x.clone()\n");
  const verdict v = judged_by_fake(looks, true, task_of(layered), {.protocol = "kernelbench/1"});
  CAPTURE(v.detail);
  CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
}
