// Streams through LibTorch's device-independent interface, graphs through the graph library.
#include "policy/engine/device_queue.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/core.h>

namespace quern::policy {
namespace {

at::Tensor pinned_words(std::int64_t count, at::Device device) {
  return at::empty({count}, at::TensorOptions().dtype(at::kInt).pinned_memory(device.is_cuda()));
}

struct captured_work {
  const std::function<void()>* work;
  std::string problem;
};

std::int32_t call_work(void* context) {
  auto* c = static_cast<captured_work*>(context);
  try {
    (*c->work)();
    return 0;
  } catch (const std::exception& e) {
    c->problem = e.what();
    return -1;
  }
}

}  // namespace

void* current_stream(at::Device device) {
  if (device.is_cpu()) return nullptr;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return guard.getStreamNativeHandle(guard.getStream(device));
}

std::span<const std::int32_t> device_results::wait() {
  if (done_) done_->synchronize();
  return {values_.const_data_ptr<std::int32_t>(), static_cast<std::size_t>(values_.numel())};
}

base::expected<device_queue> device_queue::make(at::Device device, bool graphs) {
  device_queue queue(device);
  if (device.is_cpu()) return queue;
  const c10::impl::VirtualGuardImpl guard(device.type());
  if (!device.has_index()) queue.device_ = at::Device(device.type(), guard.getDevice().index());
  queue.stream_ = guard.getStreamFromGlobalPool(queue.device_, false);
  if (!graphs) return queue;
  QUERN_TRY(queue.functions_, cuda_graph_functions());
  queue.graphs_ = queue.functions_->open();
  return queue;
}

device_queue::device_queue(device_queue&& other) noexcept
    : device_(other.device_),
      stream_(other.stream_),
      functions_(other.functions_),
      graphs_(std::exchange(other.graphs_, nullptr)) {}

device_queue& device_queue::operator=(device_queue&& other) noexcept {
  device_ = other.device_;
  stream_ = other.stream_;
  functions_ = other.functions_;
  std::swap(graphs_, other.graphs_);
  return *this;
}

device_queue::~device_queue() {
  if (graphs_ != nullptr) functions_->close(graphs_);
}

device_queue::scope::scope(const device_queue& queue) {
  if (queue.stream_)
    before_ = c10::impl::VirtualGuardImpl(queue.device_.type()).exchangeStream(*queue.stream_);
}

device_queue::scope::~scope() {
  if (before_) c10::impl::VirtualGuardImpl(before_->device_type()).exchangeStream(*before_);
}

at::Tensor device_queue::upload(std::span<const std::int32_t> values) const {
  const at::Tensor target = at::empty({static_cast<std::int64_t>(values.size())},
                                      at::TensorOptions().dtype(at::kInt).device(device_));
  upload_into(target, values);
  return target;
}

void device_queue::upload_into(const at::Tensor& target,
                               std::span<const std::int32_t> values) const {
  const auto count = static_cast<std::int64_t>(values.size());
  // LibTorch does not give the pinned block away again before the copy is done.
  const at::Tensor host = pinned_words(count, device_);
  std::copy(values.begin(), values.end(), host.mutable_data_ptr<std::int32_t>());
  target.narrow(0, 0, count).copy_(host, true);
}

device_results device_queue::download(const at::Tensor& values) const {
  device_results results;
  results.values_ = pinned_words(values.numel(), device_);
  results.values_.copy_(values.view({-1}), true);
  if (stream_) {
    results.done_.emplace(device_.type());
    results.done_->record(*stream_);
  }
  return results;
}

void device_queue::wait() const {
  if (stream_) c10::impl::VirtualGuardImpl(device_.type()).synchronizeStream(*stream_);
}

base::expected<std::int32_t> device_queue::capture(const std::function<void()>& work) {
  captured_work context{&work, {}};
  std::int32_t number = 0;
  if (functions_->capture(graphs_, &call_work, &context, &number) != 0)
    return base::fail(base::errc::unavailable, "capture of a graph: {}{}{}",
                      functions_->problem(graphs_), context.problem.empty() ? "" : ": ",
                      context.problem);
  return number;
}

void device_queue::replay(std::int32_t graph) {
  if (functions_->replay(graphs_, graph) != 0)
    throw std::runtime_error(fmt::format("replay of a graph: {}", functions_->problem(graphs_)));
}

}  // namespace quern::policy
