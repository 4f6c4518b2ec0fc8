// Control in the simulation: the production classes that decide, on the production ledger in
// memory, joined as the actors join them. It knows nothing of the oracle's truth; where the classes
// and the ledger disagree, it says so.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/decide/evaluation_desk.hpp"
#include "actors/decide/offer_book.hpp"
#include "actors/decide/replay_book.hpp"
#include "actors/decide/session_book.hpp"
#include "env/plugin/time_outs.hpp"
#include "storage/database.hpp"
#include "storage/ledger.hpp"
#include "tools/sim/models.hpp"

namespace quern::sim {

inline constexpr std::string_view lane = "cpp";
inline constexpr std::string_view device_class = "cpp-sim";
inline constexpr nanoseconds_t lease_ns = 250'000'000;
inline constexpr nanoseconds_t repeat_ns = 300'000'000;
inline constexpr nanoseconds_t pause_patience_ns = 400'000'000;
inline constexpr std::int64_t heartbeat_ms = 100;
inline constexpr nanoseconds_t silence_ns = env::missed_heartbeats * heartbeat_ms * 1'000'000;

actors::evaluation_desk::limits desk_limits(const scenario& plan);

class control {
 public:
  struct wires {
    std::function<void(int generator, generation_request)> generate;
    std::function<void(int generator, epoch_id, weights_ptr)> install;
    std::function<void(step_request)> train;
    std::function<void(epoch_id)> save;
    std::function<void(epoch_id)> offer;
    std::function<void(int host, env::message)> to_host;
    std::function<void(epoch_id, weights_ptr)> start_learner;
  };

  control(event_queue& events, oracle& truth, const scenario& plan, storage::database& db,
          wires out);

  /// A new control process: opens the ledger, recovers, starts an epoch.
  void boot();
  /// The process is gone; what it had not committed is, too.
  void die();
  [[nodiscard]] bool alive() const { return alive_; }

  void learner_died();
  /// `next`: the incarnation from which on a generator at this place may be alive.
  void generator_died(int generator, std::int64_t next);

  void on_sample(int generator, const generated_sample& sample);
  void on_installed(int generator, std::int64_t incarnation, epoch_id epoch,
                    const base::hash128& hash);
  void on_step(const step_request& of, const weights_ptr& made, bool left_out, bool offered);
  void on_offered(epoch_id epoch, const weights_ptr& made);
  void on_saved(epoch_id epoch, weights_version version, const base::hash128& hash);
  void on_host(int host, const env::message& what);
  /// Deadlines, silence, repetition of what was not answered.
  void tick();

  /// No new groups from now on.
  void drain() { draining_ = true; }
  /// Nothing can move any more: all live samples are admitted and too few for a step, and
  /// generators have been told of the newest weights.
  [[nodiscard]] bool settled() const;
  /// `quern stop`: checkpoint is taken; the rest is dropped and the law counted.
  void stop();
  [[nodiscard]] weights_version version() const { return book_->version(); }
  [[nodiscard]] storage::ledger& ledger() { return *ledger_; }
  [[nodiscard]] std::string standing() const;

 private:
  void begin_epoch(const std::string& reason);
  void announce(const weights_ptr& offered);
  void pump();
  std::int64_t groups_under_way();
  void issue_groups();
  void ask_generators();
  void submit_evaluations();
  void form_batch();
  void check_losses(actors::group_id group);
  void send_jobs();
  void settle_commit();
  void want_commit();
  void apply(const std::vector<actors::transition>& changes);
  void note_lease(const actors::lease_result& result);
  void on_result(int host, actors::session_id session, actors::lease_id lease,
                 const actors::lease_result& result, const std::string& text);
  template <class T>
  bool must(const base::expected<T>& result) {
    if (!result) truth_.violated("control: " + result.error().message);
    return result.has_value();
  }
  void must_accept(const base::expected<storage::arrived>& result, sample_id sample);
  [[nodiscard]] weights_version installed() const;

  event_queue& events_;
  oracle& truth_;
  const scenario& plan_;
  storage::database& db_;
  wires out_;

  bool alive_ = false;
  bool draining_ = false;
  std::int64_t life_ = 0;
  epoch_id epoch_ = 0;
  std::unique_ptr<storage::ledger> ledger_;
  storage::statement count_groups_;
  std::int64_t ticks_ = 0;
  std::optional<actors::replay_book> book_;
  std::optional<actors::evaluation_desk> desk_;
  std::optional<actors::session_book> sessions_;
  weights_ptr newest_;     // of the last step
  weights_ptr announced_;  // what generators are told of
  actors::offer_book offers_;
  weights_version recorded_ = 0;
  bool saving_ = false;
  std::vector<base::hash128> attested_;  // by generator: what it serves with
  std::vector<std::int64_t> living_;     ///< by generator: the oldest incarnation that may be alive
  std::map<sample_id, nanoseconds_t> asked_;
  std::map<sample_id, base::hash128> tokens_;
  std::map<sample_id, int> evaluations_;
  std::set<sample_id> submitted_;
  std::map<actors::session_id, int> host_of_;
  std::optional<step_request> stepping_;
  nanoseconds_t step_sent_ = 0;
  std::vector<std::function<void()>> after_commit_;
  bool commit_planned_ = false;
};

}  // namespace quern::sim
