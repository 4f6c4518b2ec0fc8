// `quern-torch reference` end to end: TorchScript text in a sandboxed child, on memory that the
// evaluator owns.
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>

#include <signal.h>
#include <unistd.h>

#include "env/runner/reference_service.hpp"
#include "support/meddler.hpp"
#include "support/test.hpp"

using namespace quern::env;
namespace base = quern::base;

namespace {

reference_service& service() {
  static auto started = reference_service::start(quern::test::program_dir() / "quern-torch",
                                                 sandbox_mode::best_effort)
                            .value();
  return *started;
}

task_instance instance(std::vector<tensor_layout> inputs, std::vector<tensor_layout> outputs) {
  task_instance at;
  at.inputs = std::move(inputs);
  at.outputs = std::move(outputs);
  return at;
}

tensor_layout tensor(std::string name, dtype type, std::vector<std::int64_t> shape) {
  tensor_layout t;
  t.name = std::move(name);
  t.type = type;
  t.shape = std::move(shape);
  for (auto n : t.shape)
    t.elements *= n;
  t.bytes = t.elements * static_cast<std::int64_t>(size_of(type));
  return t;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

using contents = std::vector<std::vector<std::byte>>;

const std::vector<tensor_layout> row{tensor("x", dtype::f32, {1, 3})};

}  // namespace

TEST_CASE("a reference computes what ATen computes, in f32 and in f64") {
  auto runner = service().open("def forward(x):\n    return torch.softmax(x, -1)\n", -1).value();
  const contents inputs{bytes_of<float>({0, 1, 2})};
  const auto at = instance(row, {tensor("y", dtype::f32, {1, 3})});
  const auto y = values_of<float>(runner.run(at, inputs, false).value()[0]);
  const double sum = 1 + std::exp(1.0) + std::exp(2.0);
  CHECK(y[2] == doctest::Approx(std::exp(2.0) / sum).epsilon(1e-6));
  const auto wide = values_of<double>(runner.run(at, inputs, true).value()[0]);
  REQUIRE(wide.size() == 3);
  CHECK(std::abs(wide[2] - std::exp(2.0) / sum) < 1e-15);
}

TEST_CASE("several outputs, integers, and results that are views") {
  auto runner =
      service().open("def forward(x, i):\n    return x.t(), torch.add(i, 1)\n", -1).value();
  const auto at = instance({tensor("x", dtype::f32, {2, 2}), tensor("i", dtype::i64, {2})},
                           {tensor("y", dtype::f32, {2, 2}), tensor("j", dtype::i64, {2})});
  const auto out =
      runner
          .run(at, contents{bytes_of<float>({1, 2, 3, 4}), bytes_of<std::int64_t>({5, -1})}, false)
          .value();
  CHECK(values_of<float>(out[0]) == std::vector<float>{1, 3, 2, 4});
  CHECK(values_of<std::int64_t>(out[1]) == std::vector<std::int64_t>{6, 0});
}

TEST_CASE("what is wrong with a reference is said") {
  const contents inputs{bytes_of<float>({0, 1, 2})};
  const auto error_of = [&](const char* text, task_instance at) {
    auto runner = service().open(text, -1);
    if (!runner) return runner.error();
    auto out = runner->run(at, inputs, false);
    REQUIRE_FALSE(out.has_value());
    return out.error();
  };
  const auto right = instance(row, {tensor("y", dtype::f32, {1, 3})});
  for (const auto& [text, says] :
       {std::pair{"def forward(x):\n    return torch.no_such_operator(x)\n", "no_such_operator"},
        std::pair{"def backward(x):\n    return x\n", "does not define `forward`"},
        std::pair{"def forward(x):\n    return torch.sum(x)\n", "shape"},
        std::pair{"def forward(x):\n    return x.double()\n", "Double"},
        std::pair{"def forward(x):\n    return x, x\n", "2 tensors"},
        std::pair{"def forward(x):\n    return 3\n", "tensors"},
        std::pair{"def forward(x):\n    return torch.matmul(x, x)\n", "mat"}}) {
    const auto e = error_of(text, right);
    CAPTURE(e.message);
    CHECK(e.code == base::errc::invalid_argument);
    CHECK(e.message.find(says) != std::string::npos);
  }
}

TEST_CASE("a child that failed leaves the next one unaffected") {
  auto bad = service().open("def forward(x):\n    return torch.sum(x)\n", -1).value();
  const auto at = instance(row, {tensor("y", dtype::f32, {1, 3})});
  const contents inputs{bytes_of<float>({3, 1, 2})};
  CHECK_FALSE(bad.run(at, inputs, false).has_value());
  auto good = service().open("def forward(x):\n    return torch.relu(x)\n", -1).value();
  CHECK(values_of<float>(good.run(at, inputs, false).value()[0]) == std::vector<float>{3, 1, 2});
}

TEST_CASE("a child that somebody stopped ends with its owner") {
  (void)service();
  const auto parents = quern::test::descendants(getpid(), "quern-torch", false);
  REQUIRE(parents.size() == 1);
  const auto children = [&] { return quern::test::descendants(parents.begin()->first, "", false); };
  const auto gone = [&] {
    for (int i = 0; i < 20000 && !children().empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return children().empty();
  };
  REQUIRE(gone());
  std::optional<reference_runner> runner(
      service().open("def forward(x):\n    return x\n", -1).value());
  const auto there = children();
  REQUIRE(there.size() == 1);
  REQUIRE(::kill(there.begin()->first, SIGSTOP) == 0);
  runner.reset();
  CHECK(gone());
}

TEST_CASE("references are sandboxed, and made of operators that compute") {
  CHECK(service().open("def forward(x):\n    return x\n", -1).value().layers().has(layer::seccomp));
  const auto at = instance(row, {tensor("y", dtype::f32, {1, 3})});
  const contents inputs{bytes_of<float>({3, 1, 2})};
  const auto refused = [&](const std::string& text) -> std::string {
    auto runner = service().open(text, -1);
    return runner ? "taken" : runner.error().message;
  };
  for (const auto& [text, operator_name] :
       {std::pair{"def forward(x):\n    return torch.from_file('/etc/hostname', False, 3)\n",
                  "aten::from_file"},
        // Where no branch leads at present, in a loop, and in a function that is not called.
        std::pair{"def forward(x):\n    if int(x[0]) == 77:\n        x = torch.from_file('/x', "
                  "False, 3)\n    return x\n",
                  "aten::from_file"},
        std::pair{"def forward(x):\n    for i in range(3):\n        torch.save(x, '/tmp/x')\n    "
                  "return x\n",
                  "aten::save"},
        std::pair{"def other(x):\n    return torch.from_file('/x', False, 3)\ndef forward(x):\n    "
                  "return x\n",
                  "aten::from_file"},
        std::pair{"def forward(x):\n    print(x)\n    return x\n", "prim::Print"}}) {
    const auto said = refused(text);
    CAPTURE(said);
    CHECK(said.find(operator_name) != std::string::npos);
    CHECK(said.find("not for references") != std::string::npos);
  }
  // The control: what references are made of.
  auto good = service().open(
      "def twice(x, n: int):\n    y = x\n    for i in range(n):\n        y = "
      "torch.add(y, x)\n    return y\ndef forward(x):\n    parts = [x[i] for i in "
      "range(x.size(0))]\n    y = torch.stack(parts)\n    assert y.dim() == 2\n"
      "    z = torch.div(twice(y, 1), 2.0, "
      "rounding_mode='floor')\n    return torch.einsum('ij,ij->ij', [z, "
      "torch.ones_like(z)]).to(x.dtype)\n",
      -1);
  REQUIRE_MESSAGE(good.has_value(), (good ? "" : good.error().message));
  const auto ran = good->run(at, inputs, false);
  REQUIRE_MESSAGE(ran.has_value(), (ran ? "" : ran.error().message));
  CHECK(values_of<float>((*ran)[0]) == std::vector<float>{3, 1, 2});
}

TEST_CASE("a window of calls, each on its own slot, is delivered when asked for") {
  auto runner = service().open("def forward(x):\n    return x * 2\n", -1).value();
  const auto at = instance({tensor("x", dtype::f32, {1})}, {tensor("y", dtype::f32, {1})});
  const auto in = make_input_arena(at, 5).value();
  const auto out = tensor_arena::create(memory_use::outputs, at.outputs, 5).value();
  for (int s = 0; s < 5; ++s)
    *reinterpret_cast<float*>(in.at(0, s).data()) = static_cast<float>(s);
  auto& link = runner.link();
  const question_limits limits{10, 60};
  REQUIRE(link.map(in.request(0), in.fd(), limits).has_value());
  REQUIRE(link.map(out.request(1), out.fd(), limits).has_value());
  REQUIRE(link.plan(make_plan(at, in, out).value(), limits).has_value());
  REQUIRE(link.run(1, 5, limits).value() > 0);
  CHECK(*reinterpret_cast<float*>(out.at(0, 4).data()) == 0);
  REQUIRE(link.flush(limits).has_value());
  CHECK(*reinterpret_cast<float*>(out.at(0, 0).data()) == 0);
  for (int s = 1; s < 5; ++s)
    CHECK(*reinterpret_cast<float*>(out.at(0, s).data()) == static_cast<float>(2 * s));
  CHECK(link.threads() == 1);
  CHECK(link.cpu_ns() > 0);
}
