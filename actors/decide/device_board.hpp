// Which devices work for a run and which do not: what `quern status` says of evaluator hosts.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/decide/ids.hpp"
#include "base/json.hpp"

namespace quern::actors {

struct board_device {
  std::int64_t id = 0;  ///< the host's own number; of a GPU the driver's
  std::string device_class;
};

struct board_host {
  std::string name;  ///< for people; may be empty
  std::int32_t pid = 0;
  std::vector<std::string> lanes;
  std::vector<board_device> devices;
};

/// Why a device takes no work.
struct board_trouble {
  std::string reason;
  std::int64_t since_unix_ns = 0;
};

/// A device that changed between taking work and not.
struct board_change {
  std::string device;     ///< "device 1 (H200-SXM) of host node7 (process 4711)"
  board_trouble trouble;  ///< that it has, or had
};

struct board_changes {
  std::vector<board_change> out;   ///< takes no work any more, or for another reason
  std::vector<board_change> back;  ///< takes work again
};

/// A device is on trial when its host joins after a quarantine that no test has ended: a session
/// before it, of a host with the same name, had the device with the same number in quarantine. It
/// gets work, but counts as working only after it has judged a candidate or passed a test. A
/// process that was started again knows nothing of the quarantine and may run into it once more.
///
/// Thread-safe: the dispatch actor and the supervisor write, the console and the monitor read.
/// Calls for sessions that are not there do nothing.
class device_board {
 public:
  void joined(session_id session, board_host host);
  void draining(session_id session);
  void left(session_id session);
  /// A device gave a verdict on a candidate: it is not on trial any more.
  void judged(session_id session, std::int64_t device);
  /// All devices of the host that take no work; the others do. What is new about them.
  board_changes troubles(session_id session, std::map<std::int64_t, board_trouble> out);
  /// A process of the run that died too often: it is no host until it works again.
  void set_aside(const std::string& role, board_trouble why);
  void works_again(const std::string& role);

  /// Hosts that take work: they do not drain, and a device of theirs is neither in quarantine nor
  /// on trial.
  [[nodiscard]] std::size_t working() const;
  /// Where hosts are there and none takes work because of a quarantine: each device that is out or
  /// on trial, with its reason, in one line. Else empty.
  [[nodiscard]] std::string shortage() const;

  /// A list of hosts: {"session", "host", "pid", "lanes", "devices": [{"device", "class", "state":
  /// "ready" | "draining" | "quarantined", "reason", "since"}]}; reason and since (UTC, ISO 8601)
  /// only of quarantined ones.
  [[nodiscard]] base::json snapshot() const;
  /// Of processes set aside: [{"role", "reason", "since"}].
  [[nodiscard]] base::json aside() const;

 private:
  struct entry {
    board_host host;
    bool draining = false;
    std::map<std::int64_t, board_trouble> out;
    std::map<std::int64_t, std::string> on_trial;  ///< with the reason of the quarantine
    [[nodiscard]] bool works() const;
  };
  using place = std::pair<std::string, std::int64_t>;  ///< name of a host, device
  mutable std::mutex guard_;
  std::map<session_id, entry> hosts_;
  std::map<place, std::string> doubted_;  ///< went into quarantine, and have not worked since
  std::map<std::string, board_trouble> aside_;
};

/// Whether a snapshot has devices, and some or all of them are in quarantine while the others
/// drain.
bool no_device_works(const base::json& hosts);

/// A snapshot for a person, lines that end: how many devices work, and each that does not with its
/// reason.
std::string host_table(const base::json& hosts);
/// Processes set aside, a line each.
std::string aside_table(const base::json& aside);

/// "2026-11-22T08:40:01Z".
std::string utc_text(std::int64_t unix_ns);

}  // namespace quern::actors
