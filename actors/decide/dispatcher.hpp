// Which job goes to which device. Hosts ask with credit, and nobody sends work that was not asked
// for; an assignment takes constant time whatever the number of hosts, logarithmic in that of jobs.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/decide/ids.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// A device of one session.
struct device_key {
  session_id session = 0;
  std::int64_t device = 0;  ///< the host's own number for it
  bool operator==(const device_key&) const = default;
};

struct device_offer {
  std::int64_t id = 0;
  std::string device_class;             ///< times are compared within a class only
  std::int64_t slots = 1;               ///< the most jobs that the device holds at once
  std::vector<std::string> lanes = {};  ///< of the host's; empty: all
};

struct host_offer {
  std::vector<std::string> lanes;
  std::vector<device_offer> devices;
};
/// Those of the device, one of `offer`: its own, or where it names none its host's.
const std::vector<std::string>& lanes_of(const host_offer& offer, const device_offer& device);

struct job_request {
  sample_id sample = 0;
  std::string lane;
  std::string device_class;
  std::optional<device_key> avoid;  ///< re-checks take another device if one is ready
  std::int64_t turn = 0;  ///< lower ones go first; equal ones in the order of their offers
  /// Waits for another device than `avoid` as long as one of its class is here.
  bool elsewhere = false;
};

struct assignment {
  job_request job;
  device_key device;
};

/// Jobs wait in one queue for each (lane, device class), ordered by their turns; devices with
/// credit wait in one ring for the same key; `next` pairs the two fronts and takes the keys in
/// turn. Not thread-safe.
class dispatcher {
 public:
  struct limits {
    std::size_t queue = 1024;  ///< jobs that wait; offers beyond are refused (back-pressure)
    std::size_t hosts = 1024;
  };

  explicit dispatcher(limits bounds) : limits_(bounds) {}
  dispatcher(const dispatcher&) = delete;
  dispatcher& operator=(const dispatcher&) = delete;

  /// Queues a job. Errors: exhausted (the queue is full: offer again after an assignment), conflict
  /// (already waiting).
  base::status offer(job_request job);
  /// A job that comes back from a lost or useless attempt goes before those of its turn, because
  /// their group waits for it, and is never refused: it was let in before. Conflict if it is
  /// already waiting.
  base::status requeue(job_request job);
  /// Takes a waiting job out; false if it was not waiting.
  bool withdraw(sample_id sample);
  /// Takes out all that wait; their samples, ascending.
  std::vector<sample_id> withdraw_all();

  /// A host with its devices. Errors: conflict (session known), exhausted (too many hosts),
  /// invalid_argument (no device, no lane, a device twice, slots < 1, a lane that the host does not
  /// offer).
  base::status join(session_id session, host_offer offer);
  /// `granted`: the jobs that the device has asked for in this session in all, so that a doubled or
  /// late CREDIT changes nothing. Errors: not_found (session, device); invalid_argument if that
  /// asks for more than `slots` jobs beyond those already sent.
  base::status credit(const device_key& device, std::int64_t granted);
  /// A draining host keeps what it has and gets nothing more.
  void drain(session_id session);
  /// A device that takes no work for now gets none, though it has credit; nothing else changes.
  /// Unknown devices are ignored.
  void suspend(const device_key& device, bool on);
  /// The host is gone. Its leases are the lease book's affair.
  void leave(session_id session);

  /// A job and the device that gets it, or nothing. The job waits no longer and the device has one
  /// credit less.
  std::optional<assignment> next();

  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  [[nodiscard]] std::size_t hosts() const { return hosts_.size(); }
  /// Jobs sent to a device in this session, and jobs it asked for; 0 if unknown.
  [[nodiscard]] std::int64_t sent(const device_key& device) const;
  [[nodiscard]] std::int64_t granted(const device_key& device) const;
  /// Is a host here that could take such a job? One that nobody can take waits and is reported.
  /// Whether a device of this class other than `device` takes jobs of the lane.
  [[nodiscard]] bool has_other(const std::string& lane, const device_key& device) const;
  [[nodiscard]] bool servable(const std::string& lane, const std::string& device_class) const;

 private:
  /// Turn, then arrival.
  using place_in_queue = std::pair<std::int64_t, std::int64_t>;
  using job_queue = std::map<place_in_queue, job_request>;
  struct market {
    job_queue jobs;
    std::deque<device_key> ready;
    bool runnable = false;
  };
  struct ring_entry {  // a device's place in the ring of one of its lanes
    market* where = nullptr;
    bool in_ring = false;
  };
  struct device_state {
    device_offer offer;
    std::int64_t granted = 0;
    std::int64_t sent = 0;
    std::vector<ring_entry> ring_entries;
    bool suspended = false;
  };
  struct host_state {
    std::vector<device_state> devices;
    bool draining = false;
  };
  struct place {
    market* where;
    job_queue::iterator at;
  };

  device_state* find(const device_key& device);
  [[nodiscard]] const device_state* find(const device_key& device) const;
  base::status push(job_request job, bool front);
  void enter_rings(const device_key& key, device_state& device);
  void leave_rings(const device_key& key, device_state& device);
  void wake(market& where);
  /// The next device of the ring that still has credit, not `job.avoid` if another one has; none if
  /// the job has to wait for another one.
  std::optional<device_key> take_ready(market& where, const job_request& job);

  limits limits_;
  std::int64_t last_ = 0;   ///< arrival of the newest offer
  std::int64_t first_ = 0;  ///< arrival of the newest job that came back
  std::map<std::pair<std::string, std::string>, market> markets_;  // addresses are stable
  std::unordered_map<sample_id, place> waiting_;
  std::unordered_map<session_id, host_state> hosts_;
  std::deque<market*> runnable_;
};

}  // namespace quern::actors
