// One stream of a device and what is queued on it: uploads from pinned memory, results that come
// back with an event, graphs. On the host everything happens at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include "base/status.hpp"
#include "policy/device/library.hpp"

namespace quern::policy {

/// The raw handle of this thread's current stream of `device`; null on the host.
void* current_stream(at::Device device);

/// Values on their way to the host.
class device_results {
 public:
  /// Waits for them. The span lives as long as this.
  std::span<const std::int32_t> wait();

 private:
  friend class device_queue;
  at::Tensor values_;
  std::optional<c10::Event> done_;
};

/// Not thread-safe.
class device_queue {
 public:
  /// Takes a stream of the device's pool. With `graphs` (devices only): captures are possible;
  /// unavailable where the library for it is missing.
  static base::expected<device_queue> make(at::Device device, bool graphs);
  device_queue(device_queue&&) noexcept;
  device_queue& operator=(device_queue&&) noexcept;
  ~device_queue();

  at::Device device() const { return device_; }
  /// Makes the stream the current one of this thread while the result lives.
  class scope {
   public:
    explicit scope(const device_queue& queue);
    ~scope();
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

   private:
    std::optional<c10::Stream> before_;
  };

  /// Inside a scope, each of these:
  at::Tensor upload(std::span<const std::int32_t> values) const;
  void upload_into(const at::Tensor& target, std::span<const std::int32_t> values) const;
  device_results download(const at::Tensor& values) const;
  /// Waits until nothing is queued.
  void wait() const;

  bool can_capture() const { return graphs_ != nullptr; }
  /// The number of a graph of what `work` queues, which must have run once before; unavailable
  /// where it cannot be captured, and then nothing of it was done.
  base::expected<std::int32_t> capture(const std::function<void()>& work);
  void replay(std::int32_t graph);

 private:
  explicit device_queue(at::Device device) : device_(device) {}
  at::Device device_;
  std::optional<c10::Stream> stream_;
  const graph_functions* functions_ = nullptr;
  quern_policy_graphs* graphs_ = nullptr;
};

}  // namespace quern::policy
