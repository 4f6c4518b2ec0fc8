// A device's queue on a GPU: captures that are refused.
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "policy/device/library.hpp"
#include "policy/engine/device.hpp"
#include "policy/engine/device_queue.hpp"
#include "policy/engine/gpu_device.hpp"

using namespace quern;
using namespace quern::policy;

TEST_CASE("a capture that the device refuses is an error, and the queue goes on") {
  if (!test::go_on_with_cuda()) return;
  const auto graphs = cuda_graph_functions();
  if (!test::go_on_with_gpu(graphs.has_value(), graphs ? "" : graphs.error().message)) return;
  device_queue queue = std::move(device_queue::make(at::Device(at::kCUDA), true)).value();
  const device_queue::scope here(queue);
  const at::Tensor x = queue.upload(std::vector<std::int32_t>{1, 2, 3});
  x.add_(1);
  const auto waits = queue.capture([&] { queue.wait(); });
  REQUIRE_FALSE(waits.has_value());
  CHECK(waits.error().message.find("capture of a graph") != std::string::npos);
  const auto throws = queue.capture([] { throw std::runtime_error("no such kernel"); });
  REQUIRE_FALSE(throws.has_value());
  CHECK(throws.error().message.find("no such kernel") != std::string::npos);
  const auto adds = queue.capture([&] { x.add_(1); });
  REQUIRE_MESSAGE(adds.has_value(), (adds ? "" : adds.error().message));
  queue.replay(*adds);
  device_results found = queue.download(x);
  CHECK(found.wait()[2] == 5);
}
