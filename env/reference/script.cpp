// The one file that compiles TorchScript: its headers cost more than all the others together.
#include "env/reference/script.hpp"

#include <optional>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <fmt/ranges.h>
#include <torch/csrc/api/include/torch/jit.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/profiling_graph_executor_impl.h>
#include <torch/version.h>

#include "env/reference/pool_allocator.hpp"
#include "env/reference/script_operators.hpp"

namespace quern::env {
namespace {

c10::ScalarType scalar_type_of(dtype type) {
  switch (type) {
    case dtype::f32:
      return c10::ScalarType::Float;
    case dtype::f64:
      return c10::ScalarType::Double;
    case dtype::i32:
      return c10::ScalarType::Int;
    case dtype::i64:
      return c10::ScalarType::Long;
    case dtype::u8:
      return c10::ScalarType::Byte;
    case dtype::bf16:
      return c10::ScalarType::BFloat16;
    case dtype::f16:
      return c10::ScalarType::Half;
  }
  unknown_dtype(type);
}

at::Tensor tensor_at(const tensor_view& view, c10::ScalarType type, c10::Device device) {
  // The device is said twice: without the second LibTorch asks the driver about the pointer.
  return at::for_blob(view.data, view.shape)
      .options(at::TensorOptions().dtype(type).device(device))
      .target_device(device)
      .make_tensor();
}

std::string shape_text(c10::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

/// A result that is an input seen otherwise would change with the input: a copy takes its place.
void own_results(std::vector<at::Tensor>& results, std::span<const tensor_view> inputs) {
  for (auto& result : results)
    for (const auto& view : inputs) {
      const auto* begin = static_cast<const std::byte*>(view.data);
      const auto* at = static_cast<const std::byte*>(result.data_ptr());
      std::size_t bytes = size_of(view.type);
      for (const auto n : view.shape)
        bytes *= static_cast<std::size_t>(n);
      if (at < begin || at >= begin + bytes) continue;
      result = result.clone();
      break;
    }
}

std::optional<std::vector<at::Tensor>> tensors_of(const c10::IValue& value) {
  std::vector<at::Tensor> result;
  if (value.isTensor()) {
    result.push_back(value.toTensor().contiguous());
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector())
      result.push_back(t.contiguous());
  } else if (value.isTuple()) {
    for (const auto& element : value.toTupleRef().elements()) {
      if (!element.isTensor()) return std::nullopt;
      result.push_back(element.toTensor().contiguous());
    }
  } else {
    return std::nullopt;
  }
  return result;
}

}  // namespace

struct script::state {
  std::shared_ptr<torch::jit::CompilationUnit> unit;
  torch::jit::Function* forward = nullptr;
  c10::Device device = c10::DeviceType::CPU;
  std::vector<std::vector<at::Tensor>> results;
};

script::script(std::unique_ptr<state> s) : state_(std::move(s)) {}
script::~script() = default;
script::script(script&&) noexcept = default;
script& script::operator=(script&&) noexcept = default;

void run_operators_as_written() {
  at::GradMode::set_enabled(false);
  torch::jit::getExecutorMode() = false;
  torch::jit::getProfilingMode() = false;
  torch::jit::setGraphExecutorOptimize(false);
}

std::string message_of(const std::exception& e) {
  if (const auto* c = dynamic_cast<const c10::Error*>(&e)) return c->what_without_backtrace();
  return e.what();
}

std::string prepare_libtorch() {
  use_pool_allocator();
  at::set_num_threads(1);
  at::set_num_interop_threads(1);
  run_operators_as_written();
  // The first compilation and the first operators of each library initialise tables: before the
  // fork, so that every child has them.
  auto warm = script::compile(
      "def forward(x):\n"
      "    y = torch.softmax(torch.matmul(x, x.t()), -1)\n"
      "    z = torch.conv2d(y.view(1, 1, 32, 32), torch.ones([1, 1, 3, 3]))\n"
      "    return torch.sum(torch.exp(torch.layer_norm(y, [32])), -1) + torch.sum(z)\n");
  if (warm) {
    std::vector<float> x(32 * 32, 0.5F);
    const std::vector<tensor_view> inputs{{dtype::f32, {32, 32}, x.data()}};
    std::string why;
    warm->call(inputs, 0, false, why);
    warm->call(inputs, 0, true, why);
  }
  return "libtorch " TORCH_VERSION;
}

base::expected<script> script::compile(const std::string& text, int device) {
  auto s = std::make_unique<state>();
  if (device != in_host_memory)
    s->device = c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device));
  try {
    s->unit = torch::jit::compile(text);
    s->forward = s->unit->find_function("forward");
  } catch (const std::exception& e) {
    return base::fail(base::errc::invalid_argument, "TorchScript: {}", message_of(e));
  }
  if (s->forward == nullptr)
    return base::fail(base::errc::invalid_argument,
                      "TorchScript: the text does not define `forward`");
  if (const std::string name = forbidden_operator(*s->unit); !name.empty())
    return base::fail(base::errc::invalid_argument,
                      "TorchScript: {} is not for references: they are made of operators of aten "
                      "that compute with tensors and numbers",
                      name);
  return script(std::move(s));
}

bool script::call(std::span<const tensor_view> inputs, std::size_t slot, bool in_f64,
                  std::string& why) {
  try {
    torch::jit::Stack stack;
    for (const auto& view : inputs) {
      auto t = tensor_at(view, scalar_type_of(view.type), state_->device);
      stack.emplace_back(in_f64 && is_floating(view.type) ? t.to(c10::ScalarType::Double)
                                                          : std::move(t));
    }
    auto outputs = tensors_of((*state_->forward)(std::move(stack)));
    if (!outputs) {
      why = "forward returns something else than tensors";
      return false;
    }
    own_results(*outputs, inputs);
    if (state_->results.size() <= slot) state_->results.resize(slot + 1);
    state_->results[slot] = std::move(*outputs);
    return true;
  } catch (const std::exception& e) {
    why = message_of(e);
    return false;
  }
}

result_check script::deliver(std::span<const tensor_view> outputs, std::size_t slot, bool in_f64) {
  auto check = copy_out(outputs, slot, in_f64);
  if (slot < state_->results.size()) state_->results[slot].clear();
  return check;
}

void script::forget() {
  state_->results.clear();
}

result_check script::copy_out(std::span<const tensor_view> outputs, std::size_t slot, bool in_f64) {
  if (slot >= state_->results.size()) return {result_fault::failed, "nothing was computed"};
  const auto& result = state_->results[slot];
  if (result.size() != outputs.size())
    return {result_fault::wrong_shape,
            fmt::format("forward returns {} tensors, the task has {} outputs", result.size(),
                        outputs.size())};
  for (std::size_t i = 0; i < outputs.size(); ++i)
    try {
      const auto& view = outputs[i];
      const bool widen = in_f64 && is_floating(view.type);
      if (result[i].sizes() != c10::IntArrayRef(view.shape))
        return {result_fault::wrong_shape,
                fmt::format("output {} has shape {}, the task says {}", i,
                            shape_text(result[i].sizes()), shape_text(view.shape))};
      if (!widen && result[i].scalar_type() != scalar_type_of(view.type))
        return {result_fault::wrong_dtype,
                fmt::format("output {} is {}, the task says {}", i,
                            c10::toString(result[i].scalar_type()), name_of(view.type))};
      const auto type = widen ? c10::ScalarType::Double : scalar_type_of(view.type);
      tensor_at(view, type, state_->device).copy_(result[i]);
    } catch (const std::exception& e) {
      return {result_fault::failed, message_of(e)};
    }
  return {};
}

}  // namespace quern::env
