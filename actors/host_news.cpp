#include "actors/host_news.hpp"

#include <unordered_map>

#include "env/task/task_codec.hpp"

namespace quern::actors {
namespace {

class forwarder final : public gateway_events {
 public:
  forwarder(const task_book& tasks, dispatch_ref target) : target_(std::move(target)) {
    for (const book_task& task : tasks.tasks()) {
      if (auto hash = base::parse_hash(env::task_hash_of(task.id))) {
        texts_[*hash] = env::to_yaml(*task.task);
      }
    }
  }

  void host_joined(session_id session, const env::hello_message& from) override {
    actors::host_joined news;
    news.session = session;
    news.build = from.build;
    news.lanes = from.lanes;
    news.pid = static_cast<std::int32_t>(from.pid);
    news.name = from.name;
    news.start = static_cast<std::int32_t>(from.start);
    for (const env::host_device& device : from.devices) {
      news.devices.push_back({device.id, device.device_class, device.slots, device.lanes});
    }
    caf::anon_send(target_, std::move(news));
  }
  void credit(session_id session, std::int64_t device, std::int64_t granted) override {
    caf::anon_send(target_, host_credit{session, device, granted});
  }
  void verdict(session_id session, lease_id lease, const std::string& text) override {
    caf::anon_send(target_, host_answer{session, lease, false, text, false});
  }
  void failed(session_id session, lease_id lease, const std::string& reason) override {
    caf::anon_send(target_, host_answer{session, lease, true, reason, false});
  }
  void returned(session_id session, lease_id lease, const std::string& reason) override {
    caf::anon_send(target_, host_answer{session, lease, true, reason, true});
  }
  void quarantined(session_id session,
                   const std::vector<env::quarantined_device>& devices) override {
    host_devices news{session, {}};
    for (const auto& device : devices)
      news.quarantined.push_back({device.device, device.reason, device.for_ms});
    caf::anon_send(target_, std::move(news));
  }
  void host_draining(session_id session) override {
    caf::anon_send(target_, host_leaves{session, true, "drain", false});
  }
  void host_lost(session_id session, const std::string& why) override {
    caf::anon_send(target_, host_leaves{session, false, why, false});
  }
  void host_left(session_id session, const std::string& why) override {
    caf::anon_send(target_, host_leaves{session, false, why, true});
  }
  std::optional<std::string> task_text(const base::hash128& task) override {
    const auto found = texts_.find(task);
    return found == texts_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::unordered_map<base::hash128, std::string> texts_;
  dispatch_ref target_;
};

}  // namespace

std::unique_ptr<gateway_events> forward_host_news(const task_book& tasks, dispatch_ref target) {
  return std::make_unique<forwarder>(tasks, std::move(target));
}

}  // namespace quern::actors
