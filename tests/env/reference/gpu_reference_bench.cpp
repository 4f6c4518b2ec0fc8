// What tests of references on a device share.
#include "gpu_reference_bench.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "env/sandbox/gpu_access.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

namespace quern::test {
namespace {

using namespace env;

constexpr std::size_t output_buffer = 0;

reference_service& processor_service() {
  static auto started =
      reference_service::start(program_dir() / "quern-torch", sandbox_mode::best_effort).value();
  return *started;
}

double value_at(dtype type, const tensor_bytes& bytes, std::size_t i) {
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    return value;
  };
  switch (type) {
    case dtype::f32:
      return as(0.0F);
    case dtype::f64:
      return as(0.0);
    case dtype::i32:
      return as(std::int32_t{0});
    case dtype::i64:
      return static_cast<double>(as(std::int64_t{0}));
    case dtype::u8:
      return as(std::uint8_t{0});
    case dtype::bf16: {
      const std::uint32_t bits = std::uint32_t{as(std::uint16_t{0})} << 16;
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    case dtype::f16:
      break;
  }
  FAIL("no case has this type");
  return 0;
}

}  // namespace

task task_of(const reference_case& what) {
  std::string text = fmt::format(
      "quern_task: 1\nname: {}\nlane: cuda\nfamily: test\nsizes: {{n: {}}}\n"
      "hidden_sizes: [{{n: 1}}]\ninputs:\n",
      what.name, what.n);
  std::string arguments;
  for (std::size_t i = 0; i < what.inputs.size(); ++i) {
    text += fmt::format("  - {{name: x{}, {}}}\n", i, what.inputs[i]);
    arguments += fmt::format("{}x{}", i == 0 ? "" : ", ", i);
  }
  text += "outputs:\n";
  for (std::size_t i = 0; i < what.outputs.size(); ++i)
    text += fmt::format("  - {{name: y{}, {}}}\n", i, what.outputs[i]);
  text += fmt::format(
      "tolerance: {{atol: {}, rtol: {}}}\nbaseline: reference\ncost: {{bytes: n, flops: n}}\n"
      "reference: |\n  def forward({}):\n      {}\n",
      what.atol, what.rtol, arguments, what.body);
  auto parsed = parse_task(text);
  REQUIRE_MESSAGE(parsed.has_value(), text << (parsed ? "" : parsed.error().message));
  return *parsed;
}

base::expected<std::vector<tensor_bytes>> on_processor(const reference_case& what,
                                                       const task_instance& at,
                                                       const std::vector<tensor_bytes>& inputs) {
  QUERN_TRY(auto runner, processor_service().open(task_of(what).reference, -1));
  return runner.run(at, inputs, what.in_f64);
}

std::size_t count_wrong(const reference_case& what, dtype type, const tensor_bytes& got,
                        const tensor_bytes& want) {
  REQUIRE(got.size() == want.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size() / size_of(type); ++i) {
    const double g = value_at(type, got, i), w = value_at(type, want, i);
    const bool same = g == w || (std::isnan(g) && std::isnan(w)) ||
                      std::abs(g - w) <= what.atol + what.rtol * std::abs(w);
    if (!same && wrong++ == 0)
      MESSAGE(what.name << ": element " << i << " is " << g << ", on the processor " << w);
  }
  return wrong;
}

std::unique_ptr<reference_bench> reference_bench::open(std::string& problem) {
  auto context = device_context::open(the_gpu());
  if (!context) {
    problem = context.error().message;
    return nullptr;
  }
  auto bench = std::make_unique<reference_bench>();
  bench->context_ = std::move(*context);
  bench->memory_ = std::make_unique<lent_memory>(*bench->context_, 1, 7);
  auto access = gpu_sandbox_paths(bench->context_->facts().bus_id);
  if (!access) {
    problem = "the sandbox cannot show the device: " + access.error().message;
    return nullptr;
  }
  bench->access_ = std::move(*access);
  bench->children_ = spawner::create(sandbox_mode::best_effort).value();
  bench->restart();
  return bench;
}

void reference_bench::restart() {
  process_.reset();
  gpu_reference_start how;
  how.program = program_dir() / "quern-torch";
  how.library = program_dir() / "libquern_cuda.so";
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  how.access = access_;
  auto started = gpu_reference_process::start(*children_, how);
  REQUIRE_MESSAGE(started.has_value(), (started ? "" : started.error().message));
  process_ = std::move(*started);
  std::string layers;
  for (const auto& name : process_->layers().names())
    layers += " " + name;
  std::printf("start in the sandbox: %.2f s; layers:%s\n", seconds(), layers.c_str());
}

std::string reference_bench::set_up(const reference_case& what, std::int32_t slots,
                                    bool under_graph) {
  const task subject = task_of(what);
  instance_ = make_device_instance(subject, env::tensors_of(subject).sizes).value();
  REQUIRE(memory_->reserve(instance_->needs(slots, 0)).has_value());
  std::string why;
  const auto step = [&](const answered<void>& done) {
    if (!done && why.empty()) why = done.error().text;
    return done.has_value();
  };
  auto call = call_request(*instance_, false);
  call.in_f64 = what.in_f64 ? 1 : 0;
  call.under_graph = under_graph ? 1 : 0;
  orders_.assign(static_cast<std::size_t>(slots), {});
  if (step(memory_->lend(link(), output_buffer)) &&
      step(link().tensors(instance_->tensors, slots)) && step(link().script(subject.reference)))
    step(link().call(call));
  return why;
}

window_result reference_bench::window() {
  for (std::size_t s = 0; s < orders_.size(); ++s)
    orders_[s] = maker_.fresh(0, static_cast<std::int32_t>(s));
  window_order order;
  order.calls = orders_;
  order.settings = {2 * context_->facts().l2_bytes, 60'000'000};
  window_result result;
  auto times = link().window(order, 60);
  if (!times) {
    result.failure = times.error().text;
    return result;
  }
  result.times = std::move(*times);
  if (auto done = link().deliver(60); !done) result.failure = done.error().text;
  return result;
}

std::vector<tensor_bytes> reference_bench::inputs_of(std::int32_t slot) {
  const auto& order = orders_[static_cast<std::size_t>(slot)];
  const auto& at = instance_->at;
  for (std::size_t i = 0; i < at.inputs.size(); ++i) {
    quern_content content = instance_->tensors.content[i];
    content.key = order.key + i;
    content.stream = order.stream;
    content.kind = instance_->tensors.kinds[order.round][i];
    context_->fill(memory_->inputs() + instance_->inputs.offset(i), content);
  }
  REQUIRE(context_->wait().has_value());
  std::vector<tensor_bytes> result;
  for (std::size_t i = 0; i < at.inputs.size(); ++i) {
    result.emplace_back(static_cast<std::size_t>(at.inputs[i].bytes));
    REQUIRE(
        context_->read(result.back(), memory_->inputs() + instance_->inputs.offset(i)).has_value());
  }
  return result;
}

std::vector<tensor_bytes> reference_bench::outputs_of(std::int32_t slot) {
  std::vector<tensor_bytes> result;
  const auto& at = instance_->at;
  for (std::size_t o = 0; o < at.outputs.size(); ++o) {
    result.emplace_back(static_cast<std::size_t>(at.outputs[o].bytes));
    const std::uint64_t from = memory_->outputs(output_buffer) + instance_->outputs.offset(o) +
                               static_cast<std::uint64_t>(slot) * instance_->outputs.stride();
    REQUIRE(context_->read(result.back(), from).has_value());
  }
  return result;
}

}  // namespace quern::test
