// New weights of a learner's rank 0 to generators, each over a link of its own, from copies that
// stay as they are while the learner goes on.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "actors/decide/copy_book.hpp"
#include "actors/decide/ids.hpp"
#include "actors/workers/device_share.hpp"
#include "actors/workers/link_end.hpp"
#include "actors/workers/own_address.hpp"
#include "base/status.hpp"
#include "policy/engine/arena.hpp"
#include "policy/weights/plan.hpp"

namespace quern::actors {

/// Two copies of the weights take turns: links send the newest version, at their own pace and
/// leaving out what was replaced meanwhile, while the next one is written over the other copy. A
/// thread a link. Called by one thread.
class weight_sender {
 public:
  /// For weights like these; `version` is what every generator begins with and is not sent. Error:
  /// exhausted, where there is no memory for two copies.
  /// Generators of other hosts find their links in the directory of `here`.
  static base::expected<std::unique_ptr<weight_sender>> make(const policy::parameter_arena& weights,
                                                             weights_version version,
                                                             own_address here = {});
  /// Ends all links, whatever they wait for; within a second or so.
  ~weight_sender();
  weight_sender(const weight_sender&) = delete;
  weight_sender& operator=(const weight_sender&) = delete;

  /// A generator comes to `address` within a minute: it gets the newest version, and then every
  /// one that is the newest when it asks. Returns at once. A link that fails ends with a line in
  /// the log, and nothing else does. `share`: the GPU, where evaluators measure on it.
  void open(const std::string& address, device_share share = {});
  /// The weights of a new version. They are copied, behind what this thread has queued on the
  /// device. A link that is slow with an older version holds nobody up: the newest copy is written
  /// over, which nobody has begun to send. Where links send both copies nothing is written, and the
  /// result is false: links go on with the version before. Never waits for a link.
  bool publish(const policy::parameter_arena& weights, weights_version version);
  /// Links that have not failed, those not open yet included.
  [[nodiscard]] std::size_t links() const;

 private:
  struct connection {
    std::string address;
    device_share share;
    link_end end;
    bool over = false;
    std::thread thread;
  };
  weight_sender(policy::transfer_plan plan, const policy::parameter_arena& weights,
                weights_version version, own_address here);
  void serve(connection& own);
  base::status feed(connection& own);
  base::status send_newest(connection& own, policy::weight_link& link, weights_version& sent);
  bool wait_for_newer(weights_version than);
  /// None: this ends.
  std::optional<std::size_t> take_newest();
  [[nodiscard]] bool stopping() const;
  void give_back(std::size_t copy);
  void forget_failed();

  const policy::transfer_plan plan_;
  const weights_version start_;
  const own_address here_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::array<at::Tensor, 2> copies_;
  copy_book book_;
  bool stopping_ = false;
  std::vector<std::unique_ptr<connection>> connections_;
};

}  // namespace quern::actors
