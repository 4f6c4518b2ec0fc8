// Collectives in host memory through the Gloo that libtorch_cpu.so contains.
#include <charconv>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <mutex>
#include <utility>

#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "policy/collectives/backend.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

/// What Gloo waits at the longest by itself: far above the deadline of the watch, which is what
/// ends a group. Threads that are left in it end with the process.
constexpr std::chrono::milliseconds gloo_patience = std::chrono::hours(24);

/// The rank whose address is under a key of Gloo's, "rank_3" or "3"; -1: not known.
std::int32_t rank_of_key(std::string_view key) {
  key = key.substr(key.find_last_of("/_") + 1);
  std::int32_t rank = -1;
  const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), rank);
  return code == std::errc() && end == key.data() + key.size() ? rank : -1;
}

/// LibTorch notes the collectives of all groups of a process in one table, and does not guard the
/// first entry of a group against threads that look up those of other groups.
std::mutex gloo_start;

/// The rendezvous's values as the store through which Gloo's ranks exchange their addresses.
class rendezvous_store final : public c10d::Store {
 public:
  rendezvous_store(std::shared_ptr<rendezvous> link, std::string prefix)
      : link_(std::move(link)), prefix_(std::move(prefix)) {}
  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<rendezvous_store>(link_, prefix_);
  }
  using c10d::Store::set;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    check(link_->set(prefix_ + key, std::string(value.begin(), value.end())));
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    const std::string value = look_up(key);
    return {value.begin(), value.end()};
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    const auto sum = link_->add(prefix_ + key, value);
    check(sum);
    return *sum;
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys)
      look_up(key);
  }
  // A wait ends by the group's own patience.
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }
  bool deleteKey(const std::string&) override { return false; }
  bool check(const std::vector<std::string>&) override {
    throw std::runtime_error("a rendezvous does not tell whether a key is there");
  }
  std::int64_t getNumKeys() override {
    throw std::runtime_error("a rendezvous does not count its keys");
  }

 private:
  std::string look_up(const std::string& key) {
    auto value = link_->get(prefix_ + key, rank_of_key(key), link_->limits().connect);
    check(value);
    return std::move(*value);
  }
  template <class Result>
  static void check(const Result& result) {
    if (!result) throw std::runtime_error(result.error().message);
  }
  std::shared_ptr<rendezvous> link_;
  std::string prefix_;
};

std::string first_line(const char* text) {
  const std::string_view all = text;
  return std::string(all.substr(0, all.find('\n')));
}

/// Gloo completes on a thread of its own, which tells it here.
class gloo_operation final : public operation {
 public:
  /// `then` runs on the thread that asks for the result, once.
  explicit gloo_operation(c10::intrusive_ptr<c10d::Work> work, std::function<void()> then = {})
      : work_(std::move(work)), then_(std::move(then)), end_(std::make_shared<ending>()) {
    work_->getFuture()->addCallback([end = end_](c10::ivalue::Future&) {
      const std::lock_guard lock(end->mutex);
      end->done = true;
      end->news.notify_all();
    });
  }
  bool wait_for(base::nanoseconds_t patience) override {
    std::unique_lock lock(end_->mutex);
    return end_->news.wait_for(lock, std::chrono::nanoseconds(patience),
                               [&] { return end_->done; });
  }
  base::status result() override {
    try {
      work_->wait();
      if (then_) std::exchange(then_, nullptr)();
    } catch (const std::exception& e) {
      return fail(errc::unavailable, "gloo: {}", first_line(e.what()));
    }
    return {};
  }

 private:
  struct ending {
    std::mutex mutex;
    std::condition_variable news;
    bool done = false;
  };
  c10::intrusive_ptr<c10d::Work> work_;
  std::function<void()> then_;
  std::shared_ptr<ending> end_;
};

class gloo_backend final : public collective_backend {
 public:
  explicit gloo_backend(c10::intrusive_ptr<c10d::ProcessGroupGloo> group)
      : group_(std::move(group)) {}
  gloo_backend(const gloo_backend&) = delete;
  gloo_backend& operator=(const gloo_backend&) = delete;
  /// Its destructor would wait for operations that can never end; they and its threads are left to
  /// the end of the process.
  ~gloo_backend() override {
    if (aborted_) static_cast<void>(group_.release());
  }

  [[nodiscard]] at::Device device() const override { return at::kCPU; }
  started all_reduce(at::Tensor& data, reduction how) override {
    return start([&] {
      c10d::AllreduceOptions options;
      if (how == reduction::max) options.reduceOp = c10d::ReduceOp::MAX;
      std::vector<at::Tensor> tensors{data};
      return group_->allreduce(tensors, options);
    });
  }
  started reduce_scatter(at::Tensor& out, at::Tensor& in) override {
    // Gloo has none of its own: torch's, too, is an all-reduce of which a part is kept.
    return start(
        [&] {
          std::vector<at::Tensor> tensors{in};
          return group_->allreduce(tensors);
        },
        [out, in, first = group_->getRank() * out.numel()]() mutable {
          out.copy_(in.view({-1}).narrow(0, first, out.numel()));
        });
  }
  started all_gather(at::Tensor& out, at::Tensor& in) override {
    return start([&] { return group_->_allgather_base(out, in); });
  }
  started broadcast(at::Tensor& data, std::int32_t root) override {
    return start([&] {
      c10d::BroadcastOptions options;
      options.rootRank = root;
      std::vector<at::Tensor> tensors{data};
      return group_->broadcast(tensors, options);
    });
  }
  void abort() noexcept override { aborted_ = true; }

 private:
  template <class Call>
  started start(Call call, std::function<void()> then = {}) {
    if (aborted_) return fail(errc::unavailable, "the communicator was aborted");
    const std::lock_guard lock(gloo_start);
    try {
      return std::make_shared<gloo_operation>(call(), std::move(then));
    } catch (const std::exception& e) {
      return fail(errc::unavailable, "gloo: {}", first_line(e.what()));
    }
  }
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::atomic<bool> aborted_ = false;
};

}  // namespace

base::expected<std::unique_ptr<collective_backend>> make_gloo(
    const std::shared_ptr<rendezvous>& link, std::string_view name, const std::string& host) {
  // Gloo writes to sockets without MSG_NOSIGNAL: a rank would end without a word when another does.
  std::signal(SIGPIPE, SIG_IGN);
  QUERN_CHECK(link->gather(std::string(name) + " over gloo", link->limits().connect));
  try {
    const auto options = c10d::ProcessGroupGloo::Options::create(gloo_patience);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(host));
    auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<rendezvous_store>(link, std::string(name) + "/"), link->rank(),
        link->ranks(), options);
    return std::make_unique<gloo_backend>(std::move(group));
  } catch (const std::exception& e) {
    return fail(errc::unavailable, "gloo between {} ranks over {}: {}", link->ranks(), host,
                first_line(e.what()));
  }
}

}  // namespace quern::policy
