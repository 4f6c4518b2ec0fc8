// `quern-torch reference-gpu` on a device: what ATen computes there is what it computes on the
// processor, as it is and under a CUDA graph; what is wrong with a reference is said; the process
// survives what is not a fault of the device. Prints where the time goes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "env/tensor_task/tensor_body.hpp"
#include "gpu_reference_bench.hpp"
#include "support/gpu.hpp"

using namespace quern;
using namespace quern::test;

namespace {

const std::vector<reference_case>& right_cases() {
  static const std::string f32 = "dtype: f32, shape: [n, 96], dist: [normal]";
  static const std::string bf16 = "dtype: bf16, shape: [n, 512], dist: [uniform]";
  static const std::string wide = "dtype: f32, shape: [n, 512], dist: [normal]";
  static const std::vector<reference_case> cases{
      {"elementwise",
       {f32, f32},
       {"dtype: f32, shape: [n, 96]"},
       "return torch.relu(x0 * 2 + x1)",
       1e-6,
       1e-6},
      // Sums of 512 products: f32 is within 1e-4, TF32 would be off by 1e-2.
      {"matmul_f32",
       {wide, wide},
       {"dtype: f32, shape: [n, n]"},
       "return torch.matmul(x0, x1.t())",
       1e-4,
       1e-5},
      {"matmul_bf16",
       {bf16, bf16},
       {"dtype: bf16, shape: [n, n]"},
       "return torch.matmul(x0, x1.t())",
       0.05,
       0.01},
      {"softmax",
       {f32},
       {"dtype: f32, shape: [n, 96]"},
       "return torch.softmax(x0, -1)",
       1e-6,
       1e-5},
      {"layer_norm",
       {f32},
       {"dtype: f32, shape: [n, 96]"},
       "return torch.layer_norm(x0, [96])",
       1e-5,
       1e-5},
      {"conv2d",
       {"dtype: f32, shape: [2, 32, n, 24], dist: [normal]",
        "dtype: f32, shape: [40, 32, 3, 3], dist: [normal]"},
       {"dtype: f32, shape: [2, 40, n, 24]"},
       "return torch.conv2d(x0, x1, None, [1, 1], [1, 1])",
       1e-4,
       1e-4},
      {"argmax", {f32}, {"dtype: i64, shape: [n]"}, "return torch.argmax(x0, 1)"},
      {"two_outputs",
       {f32},
       {"dtype: f32, shape: [96, n]", "dtype: f32, shape: [n]"},
       "return x0.t(), torch.amax(x0, 1)"},
      {"indices",
       {wide, "dtype: i64, shape: [n, 8], below: 512, dist: [uniform]"},
       {"dtype: f32, shape: [n, 8]"},
       "return torch.gather(x0, 1, x1)"},
      {"softmax_f64",
       {f32},
       {"dtype: f64, shape: [n, 96]"},
       "return torch.softmax(x0, -1)",
       1e-14,
       1e-13,
       true},
      {"matmul_f64",
       {wide, wide},
       {"dtype: f64, shape: [n, n]"},
       "return torch.matmul(x0, x1.t())",
       1e-11,
       1e-12,
       true},
  };
  return cases;
}

const reference_case& simple_case() {
  return right_cases().front();
}

/// The bench of all tests; null, with the reason said, where there is no device.
reference_bench* the_bench() {
  static std::string problem;
  static const auto bench = reference_bench::open(problem);
  return go_on_with_gpu(bench != nullptr, problem) ? bench.get() : nullptr;
}

double median_us(const env::window_times& times) {
  std::vector<std::uint32_t> ns = times.call_ns;
  std::sort(ns.begin(), ns.end());
  return ns[ns.size() / 2] * 1e-3;
}

double wall_ms(const window_result& r) {
  return static_cast<double>(r.times.wall_ns) * 1e-6;
}

/// Whether a window's slot holds what the processor computes.
bool slot_is_right(reference_bench& bench, const reference_case& what, std::int32_t slot) {
  const auto& at = bench.instance().at;
  const auto got = bench.outputs_of(slot);
  const auto want = on_processor(what, at, bench.inputs_of(slot));
  REQUIRE_MESSAGE(want.has_value(), (want ? "" : want.error().message));
  std::size_t wrong = 0;
  for (std::size_t o = 0; o < got.size(); ++o)
    wrong += count_wrong(what, at.outputs[o].type, got[o], (*want)[o]);
  return wrong == 0;
}

/// Runs windows of a right case and checks the first and the last slot of the last one; the median
/// of its calls, 0 where something failed.
double run_right_case(reference_bench& bench, const reference_case& what, bool under_graph) {
  constexpr std::int32_t slots = 5;
  CAPTURE(what.name);
  CAPTURE(under_graph);
  const auto begin = std::chrono::steady_clock::now();
  const std::string refused = bench.set_up(what, slots, under_graph);
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  CHECK(refused == "");
  if (!refused.empty()) return 0;
  std::string walls;
  window_result last;
  for (int i = 0; i < 4; ++i) {
    last = bench.window();
    CHECK(last.failure == "");
    if (!last.failure.empty()) return 0;
    walls += fmt::format(" {:.2f}", wall_ms(last));
  }
  const double events = std::accumulate(last.times.call_ns.begin(), last.times.call_ns.end(), 0.0);
  CHECK(*std::min_element(last.times.call_ns.begin(), last.times.call_ns.end()) > 0);
  CHECK(events < static_cast<double>(last.times.wall_ns));
  // A warm window does not wait for its own gate, which would open after 60 ms.
  CHECK(wall_ms(last) < 50);
  CHECK(slot_is_right(bench, what, 0));
  CHECK(slot_is_right(bench, what, slots - 1));
  std::printf("%-13s %-5s set up %7.2f ms, windows%s ms, a call %8.2f us\n", what.name.c_str(),
              under_graph ? "graph" : "eager", ms, walls.c_str(), median_us(last.times));
  return median_us(last.times);
}

bool still_serves(reference_bench& bench) {
  return run_right_case(bench, simple_case(), false) > 0 &&
         run_right_case(bench, simple_case(), true) > 0;
}

}  // namespace

TEST_CASE("the references of these tests run on the processor") {
  for (const auto& what : right_cases()) {
    CAPTURE(what.name);
    const auto subject = task_of(what);
    const auto at = env::instantiate(subject, env::tensors_of(subject).sizes).value();
    std::vector<tensor_bytes> inputs;
    for (const auto& t : at.inputs)
      inputs.emplace_back(static_cast<std::size_t>(t.bytes));
    const auto got = on_processor(what, at, inputs);
    REQUIRE_MESSAGE(got.has_value(), (got ? "" : got.error().message));
    CHECK(got->size() == at.outputs.size());
  }
}

TEST_CASE("a reference on the device computes what it computes on the processor") {
  auto* bench = the_bench();
  if (bench == nullptr) return;
  for (const auto& what : right_cases()) {
    const double eager = run_right_case(*bench, what, false);
    const double graph = run_right_case(*bench, what, true);
    // The same kernels on the same sizes; a graph adds at most its own launch.
    if (eager > 0 && graph > 0) CHECK(graph < 3 * eager + 20);
  }
}

TEST_CASE("what is wrong with a reference is said as on the processor") {
  auto* bench = the_bench();
  if (bench == nullptr) return;
  const std::vector<std::string> in{"dtype: f32, shape: [n, 96], dist: [normal]"};
  const std::vector<std::string> out{"dtype: f32, shape: [n, 96]"};
  const std::vector<reference_case> wrong{
      {"wrong_shape", in, out, "return torch.sum(x0, 1)"},
      {"wrong_dtype", in, out, "return x0.double()"},
      {"wrong_number", in, out, "return x0, x0"},
      {"no_tensor", in, out, "return 3"},
      {"not_compiled", in, out, "return torch.no_such_operator(x0)"},
      {"thrown", in, out, "return torch.matmul(x0, x0)"},
  };
  for (const auto& what : wrong)
    for (const bool graph : {false, true}) {
      CAPTURE(what.name);
      CAPTURE(graph);
      const auto subject = task_of(what);
      const auto at = env::instantiate(subject, env::tensors_of(subject).sizes).value();
      const auto told =
          on_processor(what, at, {tensor_bytes(static_cast<std::size_t>(at.inputs[0].bytes))});
      REQUIRE_FALSE(told.has_value());
      constexpr std::string_view prefix = "the reference failed: ";
      const std::string expected =
          told.error().message.substr(told.error().message.starts_with(prefix) ? prefix.size() : 0);
      std::string got = bench->set_up(what, 3, graph);
      if (got.empty()) got = bench->window().failure;
      std::printf("%-13s %s: %s\n", what.name.c_str(), graph ? "graph" : "eager", got.c_str());
      // LibTorch names its call sites behind the first lines; what stands there may differ.
      const std::string first = expected.substr(0, std::min<std::size_t>(expected.find('\n'), 60));
      CHECK_FALSE(first.empty());
      CHECK(contains(got, first));
    }
  CHECK(still_serves(*bench));
}

TEST_CASE("questions in the wrong order are refused, and the next ones are answered") {
  auto* bench = the_bench();
  if (bench == nullptr) return;
  REQUIRE(bench->set_up(simple_case(), 2, false) == "");
  REQUIRE(bench->link().drop().has_value());
  bench->link().mapped = {};
  const auto early = bench->link().deliver(10);
  REQUIRE_FALSE(early.has_value());
  CHECK(early.error().text == "nothing was computed");
  CHECK(bench->window().failure == "a window before a script and its places");
  REQUIRE(bench->link().script("def forward(x, y):\n    return x\n").has_value());
  REQUIRE(bench->link().call(env::call_request(bench->instance(), false)).has_value());
  CHECK(contains(bench->window().failure, "does not lie inside region 0 of 0 bytes"));
  CHECK(test::contains(bench->link().program({}).error().text, "has no command"));
  CHECK(bench->link().open(0, 10).error().text == "unusable message");
  CHECK(still_serves(*bench));
}

TEST_CASE("a result larger than the device is an error with a text, and memory comes back") {
  auto* bench = the_bench();
  if (bench == nullptr) return;
  const std::vector<std::string> in{"dtype: f32, shape: [n, 96], dist: [normal]"};
  const std::vector<std::string> out{"dtype: f32, shape: [n, 96]"};
  // 24 KiB, sixteen million times.
  const reference_case large{"too_large", in, out, "return x0.repeat(1 << 24, 1)"};
  REQUIRE(still_serves(*bench));
  const auto before = bench->context().free_bytes().value();
  for (const bool graph : {false, true}) {
    REQUIRE(bench->set_up(large, 2, graph) == "");
    const std::string why = bench->window().failure;
    std::printf("too large, %s: %s\n", graph ? "graph" : "eager", why.c_str());
    CHECK(contains(why, "out of memory"));
    CHECK(still_serves(*bench));
  }
  // 1.5 GiB a script, a different one every time: what one leaves is trimmed before the next.
  for (int i = 0; i < 6; ++i) {
    const reference_case big{
        fmt::format("big_{}", i),
        in,
        {"dtype: f32, shape: [1]"},
        fmt::format("return torch.sum(x0.repeat({}, 1)).view(1)", 65536 + 256 * i)};
    REQUIRE(bench->set_up(big, 1, i % 2 == 1) == "");
    CHECK(bench->window().failure == "");
  }
  CHECK(still_serves(*bench));
  const auto after = bench->context().free_bytes().value();
  std::printf("free before %.2f GiB, after %.2f GiB\n", static_cast<double>(before) / (1U << 30U),
              static_cast<double>(after) / (1U << 30U));
  CHECK(after + (std::uint64_t{3} << 29) > before);
}

TEST_CASE("what cannot be captured is an error under a graph and works without one") {
  auto* bench = the_bench();
  if (bench == nullptr) return;
  const reference_case waits{"waits",
                             {"dtype: f32, shape: [n, 96], dist: [positive]"},
                             {"dtype: f32, shape: [n, 96]"},
                             "return x0 * float(torch.amax(x0))",
                             1e-6,
                             1e-6};
  REQUIRE(bench->set_up(waits, 2, true) == "");
  const std::string why = bench->window().failure;
  std::printf("not captured: %s\n", why.c_str());
  CHECK(contains(why, "under a CUDA graph"));
  CHECK(contains(why, "captur"));
  REQUIRE(bench->set_up(waits, 2, false) == "");
  const auto slow = bench->window();
  CHECK(slow.failure == "");
  CHECK(slot_is_right(*bench, waits, 1));
  std::printf("a reference that waits for the device: window %.2f ms (the gate opens at 60)\n",
              wall_ms(slow));
  CHECK(still_serves(*bench));
}

TEST_CASE("the longest window: 112 calls, of one operator and of forty") {
  auto* bench = the_bench();
  if (bench == nullptr) return;
  std::string chain = "x0";
  for (int i = 0; i < 40; ++i)
    chain = fmt::format("torch.relu({})", chain);
  const reference_case one = simple_case();
  const reference_case forty{"forty",
                             {"dtype: f32, shape: [n, 96], dist: [normal]"},
                             {"dtype: f32, shape: [n, 96]"},
                             "return " + chain};
  for (const auto& what : {one, forty})
    for (const bool graph : {false, true}) {
      CAPTURE(what.name);
      CAPTURE(graph);
      REQUIRE(bench->set_up(what, QUERN_MOST_CALLS, graph) == "");
      window_result r;
      std::string walls;
      for (int i = 0; i < 3; ++i) {
        r = bench->window();
        CHECK(r.failure == "");
        walls += fmt::format(" {:.2f}", wall_ms(r));
      }
      if (!r.failure.empty()) continue;
      for (const std::int32_t slot : {0, 1, 57, QUERN_MOST_CALLS - 1})
        CHECK(slot_is_right(*bench, what, slot));
      const auto& ns = r.times.call_ns;
      std::printf("112 calls, %-11s %s: windows%s ms, a call %.2f us, first %.2f, slowest %.2f\n",
                  what.name.c_str(), graph ? "graph" : "eager", walls.c_str(), median_us(r.times),
                  ns.front() * 1e-3, *std::max_element(ns.begin(), ns.end()) * 1e-3);
    }
}

// The last one: it loses the process.
TEST_CASE("after a fault of the device every question fails, and a new process serves") {
  auto* bench = the_bench();
  if (bench == nullptr) return;
  const reference_case beyond{"beyond",
                              {"dtype: f32, shape: [n, 96], dist: [normal]",
                               "dtype: i64, shape: [n, 8], below: 512, dist: [uniform]"},
                              {"dtype: f32, shape: [n, 8]"},
                              "return torch.gather(x0, 1, x1 + 4096)"};
  REQUIRE(bench->set_up(beyond, 2, false) == "");
  const std::string why = bench->window().failure;
  std::printf("fault: %s\n", why.c_str());
  CHECK_FALSE(why.empty());
  const std::string later = bench->set_up(simple_case(), 2, false);
  std::printf("afterwards: %s\n", later.c_str());
  CHECK(contains(later, "the device was lost"));
  CHECK_FALSE(bench->link().deliver(10).has_value());
  std::printf("it said: %.300s\n", bench->process().said().c_str());
  bench->restart();
  CHECK(still_serves(*bench));
  std::printf("the end: %s\n", bench->process().end().c_str());
}
