// Where the actors of control say what each role does, and where metrics and `quern status` read
// it.
#pragma once

#include <map>
#include <mutex>

#include "actors/decide/dispatcher.hpp"
#include "actors/decide/role_times.hpp"
#include "base/clock.hpp"
#include "base/json.hpp"

namespace quern::actors {

/// Thread-safe; calls for what is not there do nothing. `clock` outlives it.
class role_board {
 public:
  explicit role_board(const base::clock& clock);

  /// The run has no such role: nothing is told of it from now on.
  void without(run_role role);

  // ---- as in role_times, now ----
  role_member joined(run_role role);
  void left(role_member member);
  void working(role_member member, bool on);
  void waited_for_device(role_member member, nanoseconds_t total);
  void waits_for(run_role role, role_wait what);
  void did(run_role role, std::int64_t amount);
  void pause(bool on);

  // ---- evaluators: each device is a member, and is at work while it has a job ----
  /// Whether it takes work from now on. Jobs of one that does not may still come back.
  void device_takes_work(const device_key& device, bool on);
  void session_over(session_id session);
  /// It drains: none of its devices takes work any more.
  void session_takes_no_work(session_id session);
  void job_sent(lease_id lease, const device_key& device);
  /// Answered, expired or taken back; `device_wait`: how much of it was spent waiting for a turn.
  void job_over(lease_id lease, nanoseconds_t device_wait = 0);

  /// Control is at work as long as one is held.
  class control_work {
   public:
    explicit control_work(role_board& board) : board_(board) { board_.control_works(true); }
    ~control_work() { board_.control_works(false); }
    control_work(const control_work&) = delete;
    control_work& operator=(const control_work&) = delete;

   private:
    role_board& board_;
  };

  /// What happened since the last call, with who held the run back in the window ("held_back"): see
  /// role_report.hpp.
  base::ordered_json since_last_step();
  /// The window, likewise.
  [[nodiscard]] base::ordered_json window();

 private:
  struct device_state {
    role_member member = 0;  ///< 0: takes no work
    std::int64_t jobs = 0;
    nanoseconds_t device_wait = 0;  ///< of this member
  };
  using device_id = std::pair<session_id, std::int64_t>;
  void control_works(bool on);
  /// Of times_, with the roles that the run lacks.
  [[nodiscard]] loop_time seen_in_window();

  std::mutex guard_;
  const base::clock& clock_;
  role_times times_;
  role_member control_ = 0;
  std::map<device_id, device_state> devices_;
  std::map<lease_id, device_id> leases_;
  loop_time last_step_;
  std::array<bool, run_role_count> none_of_ = {};
};

}  // namespace quern::actors
