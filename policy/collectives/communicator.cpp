#include "policy/collectives/communicator.hpp"

#include <utility>

#include <ATen/ops/full.h>

namespace quern::policy {
namespace {

/// Between two looks at the group's health.
constexpr base::nanoseconds_t look_interval = 20'000'000;

/// Tells the end of a collective, however the wait for it ends.
class end_of_collective {
 public:
  explicit end_of_collective(rendezvous& group) : group_(group) {}
  ~end_of_collective() { group_.finish(); }
  end_of_collective(const end_of_collective&) = delete;
  end_of_collective& operator=(const end_of_collective&) = delete;

 private:
  rendezvous& group_;
};

}  // namespace

pending& pending::operator=(pending&& other) noexcept {
  if (this != &other) {
    static_cast<void>(wait());
    owner_ = other.owner_;
    work_ = std::move(other.work_);
    operation_ = std::move(other.operation_);
    number_ = other.number_;
    tensors_ = std::move(other.tensors_);
  }
  return *this;
}

pending::~pending() {
  static_cast<void>(wait());
}

base::status pending::wait() {
  if (!work_) return {};
  const auto work = std::exchange(work_, nullptr);
  const auto tensors = std::exchange(tensors_, {});
  return owner_->finish(*work, number_, operation_);
}

base::status pending::follow() {
  if (!work_) return {};
  const auto queued = work_->follow();
  if (!queued) return owner_->failed(operation_, queued.error());
  return *queued ? base::status{} : wait();
}

communicator::communicator(std::shared_ptr<rendezvous> link,
                           std::unique_ptr<collective_backend> transport)
    : link_(std::move(link)), transport_(std::move(transport)), trail_(*link_) {}

communicator::~communicator() {
  if (link_->failure()) abort();
}

void communicator::abort() noexcept {
  transport_->abort();
}

base::status communicator::check_alive(std::string_view what) {
  const auto verdict = link_->failure();
  if (!verdict) return {};
  abort();
  return tl::make_unexpected(link_->error_of(verdict, what, ""));
}

base::status communicator::failed(std::string_view what, const base::error& cause) {
  // The transport may notice before the watch does: who it was is known a moment later.
  const auto verdict = link_->wait_failure(link_->limits().silence);
  abort();
  return tl::make_unexpected(link_->error_of(verdict, what, cause.message));
}

void communicator::at(std::string_view phase, std::int64_t version) {
  trail_.at(phase, version, transport_->mark());
}

void communicator::progress() {
  trail_.progress(transport_->mark());
}

template <class Start>
base::expected<pending> communicator::begin(std::string_view what, std::vector<at::Tensor> tensors,
                                            Start start) {
  QUERN_CHECK(check_alive(what));
  // Before anything is asked of the device: its driver may not come back until the others come.
  link_->begin();
  const std::uint64_t number = trail_.enter(what, transport_->mark());
  collective_backend::started work = start();
  if (!work) return tl::make_unexpected(failed(what, work.error()).error());
  return pending(this, std::move(*work), std::string(what), number, std::move(tensors));
}

base::expected<pending> communicator::all_reduce(at::Tensor data, reduction how,
                                                 std::string_view what) {
  return begin(what, {data}, [&] { return transport_->all_reduce(data, how); });
}

base::expected<pending> communicator::reduce_scatter(at::Tensor out, at::Tensor in,
                                                     std::string_view what) {
  return begin(what, {out, in}, [&] { return transport_->reduce_scatter(out, in); });
}

base::expected<pending> communicator::all_gather(at::Tensor out, at::Tensor in,
                                                 std::string_view what) {
  return begin(what, {out, in}, [&] { return transport_->all_gather(out, in); });
}

base::expected<pending> communicator::broadcast(at::Tensor data, std::int32_t root,
                                                std::string_view what) {
  return begin(what, {data}, [&] { return transport_->broadcast(data, root); });
}

base::expected<bool> communicator::any(bool here, std::string_view what) {
  const at::Tensor said =
      at::full({1}, here ? 1.0F : 0.0F, at::TensorOptions().device(transport_->device()));
  QUERN_TRY(pending all, all_reduce(said, reduction::max, what));
  QUERN_CHECK(all.wait());
  return said.item<float>() > 0;
}

base::status communicator::barrier(std::string_view what) {
  QUERN_CHECK(any(false, what));
  return {};
}

base::status communicator::finish(operation& work, std::uint64_t number, std::string_view what) {
  const end_of_collective at_last(*link_);
  trail_.begin_wait(number, what);
  std::optional<rank_verdict> verdict;
  bool done = work.wait_for(0);
  while (!done && !verdict) {
    done = work.wait_for(look_interval);
    trail_.look();
    if (!done) verdict = link_->failure();
  }
  const base::status result = done ? work.result() : base::status{};
  if (done && !result) verdict = link_->wait_failure(link_->limits().silence);
  if (verdict || !result) {
    // Composed while this rank still counts as waiting here.
    base::error problem = link_->error_of(verdict, what, result ? "" : result.error().message);
    abort();
    trail_.end_wait();
    return tl::make_unexpected(std::move(problem));
  }
  trail_.end_wait();
  return {};
}

}  // namespace quern::policy
