// A transport of collectives between ranks. communicator.hpp puts names, deadlines and errors
// around it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "policy/collectives/rendezvous.hpp"

namespace quern::policy {

enum class reduction : std::uint8_t { sum, max };

/// A collective under way.
class operation {
 public:
  virtual ~operation() = default;
  /// Blocks up to `patience` until it has ended. True: it has, as `result` tells.
  virtual bool wait_for(base::nanoseconds_t patience) = 0;
  /// Makes what the calling thread queues on the device from now on come after it, without a wait
  /// of the host. False: there is no queue (host memory), and only a wait can tell.
  virtual base::expected<bool> follow() { return false; }
  /// Of a finished one: what the transport has to say.
  virtual base::status result() = 0;
};

/// Tensors are contiguous, on the backend's device, and stay alive until the operation has ended.
/// Every rank starts the same operations in the same order. One thread at a time.
class collective_backend {
 public:
  virtual ~collective_backend() = default;
  using started = base::expected<std::shared_ptr<operation>>;
  [[nodiscard]] virtual at::Device device() const = 0;
  virtual started all_reduce(at::Tensor& data, reduction how) = 0;
  /// `out`: the rank's part of the sum over ranks of `in`, which has `ranks` times as many elements
  /// and may be used as room.
  virtual started reduce_scatter(at::Tensor& out, at::Tensor& in) = 0;
  /// `out`: all ranks' `in`, by rank.
  virtual started all_gather(at::Tensor& out, at::Tensor& in) = 0;
  virtual started broadcast(at::Tensor& data, std::int32_t root) = 0;
  /// Tells of the calling thread's work so far, from any thread and without waiting, whether the
  /// device has done it. Empty: the device is the host, and it has.
  virtual std::function<bool()> mark() { return {}; }
  /// Ends everything under way with an error; nothing can be started any more. Any thread.
  virtual void abort() noexcept = 0;
};

/// Gloo of LibTorch, for tensors in host memory. `host`: the address that other ranks reach this
/// one by; ranks of one host use 127.0.0.1. `name` keeps several groups of one rendezvous apart.
/// From then on the process ignores SIGPIPE.
base::expected<std::unique_ptr<collective_backend>> make_gloo(
    const std::shared_ptr<rendezvous>& link, std::string_view name, const std::string& host);

/// NCCL, loaded from the library that LibTorch's CUDA part uses, for tensors on `device`.
base::expected<std::unique_ptr<collective_backend>> make_nccl(
    const std::shared_ptr<rendezvous>& link, std::string_view name, at::Device device);

}  // namespace quern::policy
