// Collectives of the learner's ranks: asynchronous, with a deadline, and with errors that name this
// rank, the phase, the peer that failed and the version of the weights. After the first failure
// everything ends with that error: the group is over, and its processes start anew.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "base/status.hpp"
#include "policy/collectives/backend.hpp"
#include "policy/collectives/meeting.hpp"

namespace quern::policy {

class communicator;

/// A collective that was started. Dropping one that was not waited for waits for it and forgets
/// its error, since its tensors are in use until then.
class pending {
 public:
  pending() = default;
  pending(pending&& other) noexcept = default;
  pending& operator=(pending&& other) noexcept;
  ~pending();
  /// Blocks until the result is there, or the group has failed. Nothing for an empty one.
  base::status wait();

 private:
  friend class communicator;
  pending(communicator* owner, std::shared_ptr<operation> work, std::string what)
      : owner_(owner), work_(std::move(work)), what_(std::move(what)) {}
  communicator* owner_ = nullptr;
  std::shared_ptr<operation> work_;
  std::string what_;
};

/// One thread at a time starts collectives, in the same order on every rank. `what` names one in
/// errors: "gradients of layer.3".
class communicator {
 public:
  communicator(std::shared_ptr<meeting> link, std::unique_ptr<collective_backend> transport);
  /// Everything that was begun has been waited for. Aborts where the group has failed.
  ~communicator();
  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;

  [[nodiscard]] std::int32_t rank() const { return link_->rank(); }
  [[nodiscard]] std::int32_t ranks() const { return link_->ranks(); }
  [[nodiscard]] meeting& link() { return *link_; }

  base::expected<pending> all_reduce(at::Tensor data, reduction how, std::string_view what);
  base::expected<pending> reduce_scatter(at::Tensor out, at::Tensor in, std::string_view what);
  base::expected<pending> all_gather(at::Tensor out, at::Tensor in, std::string_view what);
  base::expected<pending> broadcast(at::Tensor data, std::int32_t root, std::string_view what);
  /// Whether any rank says so; all get the same answer.
  base::expected<bool> any(bool here, std::string_view what);
  /// Returns when every rank has come here.
  base::status barrier(std::string_view what);
  void abort() noexcept;

 private:
  friend class pending;
  base::expected<pending> begin(std::string_view what, collective_backend::started work);
  base::status check_alive(std::string_view what);
  base::status finish(operation& work, std::string_view what);

  std::shared_ptr<meeting> link_;
  std::unique_ptr<collective_backend> transport_;
};

}  // namespace quern::policy
