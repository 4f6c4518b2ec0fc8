// Collectives of the learner's ranks: asynchronous, with a deadline, and with errors that name this
// rank, the phase, the peer that failed and the version of the weights. After the first failure
// everything ends with that error: the group is over, and its processes start anew.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/status.hpp"
#include "policy/collectives/backend.hpp"
#include "policy/collectives/progress_trail.hpp"
#include "policy/collectives/rendezvous.hpp"

namespace quern::policy {

class communicator;

/// A collective that was started; keeps its tensors. Dropping one that was not waited for waits for
/// it and forgets its error, since its tensors are in use until then.
class pending {
 public:
  pending() = default;
  pending(pending&& other) noexcept = default;
  pending& operator=(pending&& other) noexcept;
  ~pending();
  /// Blocks until the result is there, or the group has failed. Nothing for an empty one.
  base::status wait();
  /// Whatever this thread queues on the device from now on finds the result. On a GPU the host does
  /// not wait: whether there is a result at all is only known after `wait`, which still has to be
  /// called. In host memory it is `wait`.
  base::status follow();

 private:
  friend class communicator;
  pending(communicator* owner, std::shared_ptr<operation> work, std::string what,
          std::uint64_t number, std::vector<at::Tensor> tensors)
      : owner_(owner),
        work_(std::move(work)),
        operation_(std::move(what)),
        number_(number),
        tensors_(std::move(tensors)) {}
  communicator* owner_ = nullptr;
  std::shared_ptr<operation> work_;
  std::string operation_;
  std::uint64_t number_ = 0;  ///< of the collectives of this rank
  std::vector<at::Tensor> tensors_;
};

/// One thread at a time starts collectives, in the same order on every rank. `what` names one in
/// errors: "gradients of layer.3".
class communicator {
 public:
  communicator(std::shared_ptr<rendezvous> link, std::unique_ptr<collective_backend> transport);
  /// Everything that was begun has been waited for. Aborts where the group has failed.
  ~communicator();
  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;

  [[nodiscard]] std::int32_t rank() const { return link_->rank(); }
  [[nodiscard]] std::int32_t ranks() const { return link_->ranks(); }
  [[nodiscard]] rendezvous& link() { return *link_; }

  base::expected<pending> all_reduce(at::Tensor data, reduction how, std::string_view what);
  base::expected<pending> reduce_scatter(at::Tensor out, at::Tensor in, std::string_view what);
  base::expected<pending> all_gather(at::Tensor out, at::Tensor in, std::string_view what);
  base::expected<pending> broadcast(at::Tensor data, std::int32_t root, std::string_view what);
  /// Whether any rank says so; all get the same answer.
  base::expected<bool> any(bool here, std::string_view what);
  /// Returns when every rank has come here.
  base::status barrier(std::string_view what);
  void abort() noexcept;

  /// What this rank does now, and that it goes on: told to the others once its device has come to
  /// what the calling thread has queued so far. Any thread.
  void at(std::string_view phase, std::int64_t version);
  void progress();

 private:
  friend class pending;
  template <class Start>
  base::expected<pending> begin(std::string_view what, std::vector<at::Tensor> tensors,
                                Start start);
  base::status check_alive(std::string_view what);
  base::status failed(std::string_view what, const base::error& cause);
  base::status finish(operation& work, std::uint64_t number, std::string_view what);

  std::shared_ptr<rendezvous> link_;
  std::unique_ptr<collective_backend> transport_;
  progress_trail trail_;
};

}  // namespace quern::policy
