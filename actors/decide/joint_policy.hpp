// Processes that do one thing together and end when it is done, such as the makers of a corpus and
// the ranks of fine-tuning: what one end means for the others and for the run.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "actors/decide/restart_policy.hpp"
#include "base/subprocess.hpp"

namespace quern::actors {

constexpr nanoseconds_t for_ever = std::numeric_limits<nanoseconds_t>::max();

struct joint_limits {
  // ---- how long is waited before SIGKILL ----
  nanoseconds_t others = for_ever;   ///< for the others when one has ended
  nanoseconds_t pause = for_ever;    ///< for all when they were asked to pause
  nanoseconds_t silence = for_ever;  ///< for one that uses no time of a processor
  /// When one is lost the others are asked to pause: they would go on for long, and all are started
  /// again together.
  bool pause_others = false;
  restart_limits restarts = {};  ///< of all together
};

/// `at_once`: whoever asked does not want to wait for an orderly end any more.
enum class pause_request : std::uint8_t { none, in_order, at_once };

/// How a process of the role ended.
struct joint_end {
  std::string process;
  base::exit_state state;
  std::string log;         ///< empty: it says on the terminal what is wrong
  std::string last_words;  ///< the last line of its log
};

/// Decides for all processes of one role. All start together. The exit code tells an end:
///
/// | exit code | the process |
/// |---|---|
/// | 0 | is done |
/// | defaults::paused_code | has paused |
/// | defaults::group_failed_code | left because of another |
/// | defaults::worker_failed_code, a signal | is lost |
/// | any other | says what is wrong with the run |
///
/// After a loss all start again from what is kept, within the limits, and for as long as something
/// new is kept between losses. `now` is any monotone clock. Not thread-safe.
class joint_policy {
 public:
  /// `role` and `kept` ("record", "checkpoint": what they go on from) stand in messages; `reached`
  /// grows with what is kept.
  joint_policy(std::string role, std::string kept, const joint_limits& limits,
               std::int64_t reached);

  void started(const std::vector<std::string>& processes, nanoseconds_t now);
  void ended(const joint_end& news, nanoseconds_t now);
  void asked_to_pause(pause_request request);

  /// Whose use of processors is to be told now by `heard`; mostly nobody's.
  std::vector<std::string> to_be_heard(nanoseconds_t now);
  /// `used`: time of processors, as text to be compared; empty: not known.
  void heard(const std::string& process, const std::string& used, nanoseconds_t now);

  struct orders {
    bool pause = false;             ///< ask all to pause
    std::vector<std::string> kill;  ///< who lives and is to be killed
    std::string warning;            ///< why; empty: it is told with their ends
  };
  /// What is to be done now. To be asked a few times a second.
  orders look(nanoseconds_t now);

  [[nodiscard]] bool all_ended() const;
  struct outcome {
    enum class kind : std::uint8_t {
      finished,
      paused,
      failed,  ///< the run ends with `message`
      again    ///< all start again after `delay_ns`; `message` says why
    };
    kind how = kind::finished;
    std::string message = {};
    nanoseconds_t delay_ns = 0;
  };
  /// After the last end; `reached` as above, and asked after a loss only.
  outcome settle(const std::function<std::int64_t()>& reached, nanoseconds_t now);
  /// Losses since something new was kept.
  [[nodiscard]] std::int64_t in_vain() const { return in_vain_; }

 private:
  struct member {
    std::string process;
    bool over = false;
    bool silent = false;      ///< it was killed for it
    std::string used = {};    ///< as last heard
    nanoseconds_t lived = 0;  ///< when that had changed
  };
  /// Whose end is told: of one that said what is wrong rather than of one that was killed, and of
  /// that rather than of one that left because of another.
  enum class blame : std::uint8_t { nobody, left, killed, said };
  /// Since they were started together.
  struct round {
    std::vector<member> members = {};
    nanoseconds_t first_end = -1, pause_sent = -1, heard = -1;
    bool out_of_patience = false;
    bool paused = false;  ///< one has paused, and not because another was lost
    blame blamed = blame::nobody;
    std::string problem = {};
  };
  [[nodiscard]] bool lost() const;
  void kill_all(orders& now_due);
  [[nodiscard]] bool is_killed_late(const member& one, const base::exit_state& state) const;

  std::string role_, kept_;
  joint_limits limits_;
  restart_policy restarts_;
  std::int64_t reached_, in_vain_ = 0;
  pause_request asked_ = pause_request::none;
  round round_;
};

}  // namespace quern::actors
