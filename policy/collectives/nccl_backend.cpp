// Collectives between GPUs through NCCL's own interface: non-blocking, so that a peer that never
// comes holds up nothing that cannot be aborted. One stream of its own beside the computation's.
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/thread.hpp"
#include "policy/collectives/backend.hpp"
#include "policy/collectives/nccl_api.hpp"
#include "policy/collectives/nccl_end.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

/// Between two questions to NCCL or to an event: far below the duration of a collective that
/// matters.
constexpr auto nccl_question_interval = std::chrono::microseconds(50);
/// Between two looks of the guard thread; it sleeps in between.
constexpr base::nanoseconds_t guard_interval = 200'000'000;
/// What is not begun at once makes connections first, as the communicator itself and its first
/// collectives do: from then on the rank counts as waiting for it, with the limit for that.
constexpr base::nanoseconds_t begun_at_once = 1'000'000'000;
/// How long an abort waits for a call that is under way before it goes ahead.
constexpr auto abort_patience = std::chrono::seconds(1);
/// How long an end in order waits for the other ranks to end, too, and then for NCCL: processes of
/// one run end within moments of each other, or one of them has nothing to lose.
constexpr base::nanoseconds_t end_patience = 1'000'000'000;

base::expected<int> kind_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return nccl::float32;
    case at::kDouble:
      return nccl::float64;
    case at::kBFloat16:
      return nccl::bfloat16;
    case at::kHalf:
      return nccl::float16;
    case at::kLong:
      return nccl::int64;
    default:
      return fail(errc::invalid_argument, "no collectives for elements of type {}",
                  at::toString(type));
  }
}

/// Tells the watch that a rank waits for connections, once that takes a while and for as long as
/// this lives.
class connecting_rank {
 public:
  explicit connecting_rank(rendezvous& group) : group_(group), begin_(clock_.now_ns()) {}
  ~connecting_rank() {
    if (told_) group_.connecting(false);
  }
  connecting_rank(const connecting_rank&) = delete;
  connecting_rank& operator=(const connecting_rank&) = delete;
  void look() {
    if (told_ || clock_.now_ns() - begin_ < begun_at_once) return;
    told_ = true;
    group_.connecting(true);
  }

 private:
  rendezvous& group_;
  base::steady_clock clock_;
  base::nanoseconds_t begin_;
  bool told_ = false;
};

/// The communicator and whatever two threads share of it.
struct nccl_link {
  const nccl::functions* call = nullptr;
  nccl::comm* comm = nullptr;
  std::timed_mutex mutex;  ///< NCCL takes one call at a time on a communicator
  std::atomic<bool> aborted = false;

  base::status failed(int code) const {
    return fail(errc::unavailable, "nccl: {} ({})", call->error_text(code), call->last_error(comm));
  }

  /// Until what was begun has been handed to the GPU, or failed, or the watch over the ranks says
  /// which of them it fails for.
  base::status settle(int code, rendezvous& group) {
    connecting_rank waiting(group);
    while (code == nccl::in_progress) {
      waiting.look();
      if (aborted) return fail(errc::unavailable, "nccl: the communicator was aborted");
      if (group.failure())
        return fail(errc::unavailable,
                    "nccl: the ranks have not connected; NCCL_DEBUG=INFO says "
                    "what it tries, NCCL_SOCKET_IFNAME which network it takes");
      std::this_thread::sleep_for(nccl_question_interval);
      const int asked = call->async_error(comm, &code);
      if (asked != nccl::success) return failed(asked);
    }
    return code == nccl::success ? base::status{} : failed(code);
  }

  void abort() noexcept {
    if (aborted.exchange(true)) return;
    const std::unique_lock lock(mutex, abort_patience);
    if (comm != nullptr) call->abort(comm);
  }

  /// Everything that was begun has been waited for.
  void end(rendezvous& group, std::string_view name) noexcept {
    const auto failed = [&] { return group.failure().has_value(); };
    if (aborted || failed() || !nccl::all_end(group, name, end_patience)) return abort();
    const std::unique_lock lock(mutex, abort_patience);
    // Whoever holds it for so long hangs in NCCL, and frees nothing any more.
    if (!lock.owns_lock() || aborted.exchange(true)) return;
    nccl::end_in_order(*call, comm, end_patience, failed);
  }
};

class nccl_operation final : public operation {
 public:
  nccl_operation(std::shared_ptr<nccl_link> link, c10::Event done, at::Device device)
      : link_(std::move(link)), done_(std::move(done)), device_(device) {}
  bool wait_for(base::nanoseconds_t patience) override {
    const base::steady_clock clock;
    const base::nanoseconds_t deadline = clock.now_ns() + patience;
    while (true) {
      if (link_->aborted) problem_ = fail(errc::unavailable, "nccl: the communicator was aborted");
      if (problem_) look();
      if (!problem_ || is_done()) return true;
      if (clock.now_ns() >= deadline) return false;
      std::this_thread::sleep_for(nccl_question_interval);
    }
  }
  base::expected<bool> follow() override {
    try {
      done_.block(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
      return true;
    } catch (const std::exception& e) {
      return fail(errc::unavailable, "the GPU: {}", e.what());
    }
  }
  base::status result() override { return problem_; }

 private:
  bool is_done() {
    try {
      if (!done_.query()) return false;
      // An abort ends it as well, with anything for a result; it says so before it does.
      if (link_->aborted && problem_)
        problem_ = fail(errc::unavailable, "nccl: the communicator was aborted");
      return true;
    } catch (const std::exception& e) {
      problem_ = fail(errc::unavailable, "the GPU: {}", e.what());
      return true;
    }
  }
  void look() {
    const std::unique_lock lock(link_->mutex, std::try_to_lock);
    if (!lock || link_->aborted) return;
    int code = nccl::success;
    const int asked = link_->call->async_error(link_->comm, &code);
    if (asked != nccl::success) problem_ = link_->failed(asked);
    if (code != nccl::success && code != nccl::in_progress) problem_ = link_->failed(code);
  }
  std::shared_ptr<nccl_link> link_;
  c10::Event done_;
  at::Device device_;
  base::status problem_;
};

class nccl_backend final : public collective_backend {
 public:
  nccl_backend(std::shared_ptr<rendezvous> group, std::shared_ptr<nccl_link> link, std::string name,
               at::Device device)
      : group_(std::move(group)),
        link_(std::move(link)),
        name_(std::move(name)),
        device_(device),
        guard_(device.type()),
        stream_(guard_.getNewStream(device, -1)) {
    // A host that waits for the GPU cannot look after the group; this thread does.
    watcher_ = std::thread([this] {
      base::name_this_thread("nccl watcher");
      while (!stopping_)
        if (group_->wait_failure(guard_interval)) return link_->abort();
    });
  }
  nccl_backend(const nccl_backend&) = delete;
  nccl_backend& operator=(const nccl_backend&) = delete;
  ~nccl_backend() override {
    stopping_ = true;
    watcher_.join();
    link_->end(*group_, name_);
  }

  [[nodiscard]] at::Device device() const override { return device_; }
  started all_reduce(at::Tensor& data, reduction how) override {
    const int kind = how == reduction::max ? nccl::max : nccl::sum;
    return start(data, [&](int type, void* stream) {
      return link_->call->all_reduce(data.const_data_ptr(), data.mutable_data_ptr(), count(data),
                                     type, kind, link_->comm, stream);
    });
  }
  started reduce_scatter(at::Tensor& out, at::Tensor& in) override {
    return start(in, [&](int type, void* stream) {
      return link_->call->reduce_scatter(in.const_data_ptr(), out.mutable_data_ptr(), count(out),
                                         type, nccl::sum, link_->comm, stream);
    });
  }
  started all_gather(at::Tensor& out, at::Tensor& in) override {
    return start(in, [&](int type, void* stream) {
      return link_->call->all_gather(in.const_data_ptr(), out.mutable_data_ptr(), count(in), type,
                                     link_->comm, stream);
    });
  }
  started broadcast(at::Tensor& data, std::int32_t root) override {
    return start(data, [&](int type, void* stream) {
      return link_->call->broadcast(data.const_data_ptr(), data.mutable_data_ptr(), count(data),
                                    type, root, link_->comm, stream);
    });
  }
  std::function<bool()> mark() override {
    try {
      const auto here = std::make_shared<c10::Event>(device_.type());
      here->record(guard_.getStream(device_));
      return [here] {
        try {
          return here->query();
        } catch (const std::exception&) {
          return false;  // a GPU that fails comes nowhere; who waits for it learns why
        }
      };
    } catch (const std::exception&) {
      return [] { return false; };
    }
  }
  void abort() noexcept override { link_->abort(); }

 private:
  static std::size_t count(const at::Tensor& data) {
    return static_cast<std::size_t>(data.numel());
  }

  /// On its own stream, after everything that the caller has enqueued so far.
  template <class Call>
  started start(const at::Tensor& data, Call call) {
    if (link_->aborted) return fail(errc::unavailable, "nccl: the communicator was aborted");
    if (data.device() != device_)
      return fail(errc::internal, "nccl: a tensor on {} for ranks on {}", data.device().str(),
                  device_.str());
    QUERN_TRY(const int type, kind_of(data.scalar_type()));
    try {
      c10::Event ready(device_.type());
      ready.record(guard_.getStream(device_));
      ready.block(stream_);
      {
        const std::lock_guard lock(link_->mutex);
        // Whoever aborts has freed the communicator by the time that the lock is free again.
        if (link_->aborted) return fail(errc::unavailable, "nccl: the communicator was aborted");
        QUERN_CHECK(link_->settle(call(type, guard_.getStreamNativeHandle(stream_)), *group_));
      }
      c10::Event done(device_.type());
      done.record(stream_);
      return std::make_shared<nccl_operation>(link_, std::move(done), device_);
    } catch (const std::exception& e) {
      return fail(errc::unavailable, "nccl: {}", e.what());
    }
  }

  std::shared_ptr<rendezvous> group_;
  std::shared_ptr<nccl_link> link_;
  std::string name_;  ///< of the group, in its rendezvous
  at::Device device_;
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream stream_;
  std::atomic<bool> stopping_ = false;
  std::thread watcher_;
};

}  // namespace

base::expected<std::unique_ptr<collective_backend>> make_nccl(
    const std::shared_ptr<rendezvous>& group, std::string_view name, at::Device device) {
  auto link = std::make_shared<nccl_link>();
  QUERN_TRY(link->call, nccl::load());
  const std::string key = std::string(name) + "/nccl", over = std::string(name) + " over nccl";
  const base::nanoseconds_t patience = group->limits().connect;
  QUERN_CHECK(group->gather(over, patience));
  group->enter(over);
  nccl::unique_id id{};
  if (group->rank() == 0) {
    if (const int code = link->call->get_unique_id(&id); code != nccl::success)
      return fail(errc::unavailable, "nccl: no id for a group: {}", link->call->error_text(code));
    QUERN_CHECK(group->set(key, std::string(id.internal, sizeof(id.internal))));
  } else {
    QUERN_TRY(const std::string told, group->get(key, 0, patience));
    if (told.size() != sizeof(id.internal))
      return fail(errc::corrupt, "nccl: an id of {} bytes, {} are needed", told.size(),
                  sizeof(id.internal));
    std::memcpy(id.internal, told.data(), sizeof(id.internal));
  }
  try {
    // NCCL takes the device that is current on the calling thread.
    const c10::impl::VirtualGuardImpl guard(device.type());
    if (!device.has_index()) device = guard.getDevice();
    guard.setDevice(device);
    nccl::config how;
    how.blocking = 0;
    const int code =
        link->call->init_rank_config(&link->comm, group->ranks(), id, group->rank(), &how);
    if (const auto begun = link->settle(code, *group); !begun) {
      link->abort();
      const auto verdict = group->wait_failure(group->limits().silence);
      return tl::make_unexpected(group->error_of(verdict, over, begun.error().message));
    }
    return std::make_unique<nccl_backend>(group, std::move(link), key, device);
  } catch (const std::exception& e) {
    return fail(errc::unavailable, "nccl on {}: {}", device.str(), e.what());
  }
}

}  // namespace quern::policy
