// All decisions about evaluations in one place: the queue, the hosts' credit, the leases and what
// is tried again. The dispatcher actor and the simulation own one each.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/decide/dispatcher.hpp"
#include "actors/decide/lease_book.hpp"
#include "actors/decide/retry_pause.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::actors {

/// Why a verdict of this kind does not count; empty for those that judge the candidate
/// (env::judges_candidate), which alone have a reward.
constexpr std::optional<retry_cause> retry_cause_of(env::verdict_kind kind) {
  switch (kind) {
    case env::verdict_kind::noisy:
      return retry_cause::noisy;
    case env::verdict_kind::infra_error:
      return retry_cause::infra_error;
    case env::verdict_kind::invalid_reference:
      return retry_cause::invalid_reference;
    case env::verdict_kind::unconfirmed:
      return retry_cause::unconfirmed;
    case env::verdict_kind::unsupported:
      return retry_cause::unsupported;
    default:
      return std::nullopt;
  }
}

/// One JOB frame to be sent.
struct job_order {
  lease held;
  device_key device;
  bool recheck = false;       ///< measure in fresh processes whatever is cached
  std::int64_t claim_e2 = 0;  ///< an earlier claim that is to be borne out; 0: none
};

/// An attempt that failed on the machinery (infra_error) goes to another device of the class. Where
/// there is none, or another one has failed, too, it waits first, longer each time: what is sick
/// must not use up all attempts at once.
///
/// Not thread-safe. `now` is any monotone clock. Results with outcome `retry` or `returned` are
/// queued again, or wait, before they are returned; the caller writes the attempt to the ledger
/// and, for `exhausted`, drops the sample with the cause as reason. After each commit it calls
/// `committed`, and acknowledges the verdict.
class evaluation_scheduler {
 public:
  struct limits {
    explicit limits(lease_book::limits of_leases) : leases(of_leases) {}
    lease_book::limits leases;
    dispatcher::limits queue;
    retry_pause pause;
  };

  evaluation_scheduler(incarnation_id incarnation, limits bounds);

  /// Errors: exhausted (queue full), conflict (sample known). `attempt`: the first number that the
  /// ledger does not hold for this sample in this incarnation.
  base::status submit(job_request job, int attempt = 1);
  /// The sample was dropped elsewhere. The lease to cancel at its holder, if there is one.
  std::optional<lease> cancel(sample_id sample);
  /// Forgets the jobs that no host holds; their samples, ascending. What hosts hold goes on, and
  /// may come back to the queue.
  std::vector<sample_id> withdraw_waiting();

  /// What hosts say; errors as in `dispatcher`.
  base::status host_joined(session_id session, host_offer offer);
  base::status credit(const device_key& device, std::int64_t granted);
  void host_draining(session_id session);
  /// A device takes no work (`out`), or does again. It keeps its leases, and returns them.
  void device_out(const device_key& device, bool out) { queue_.suspend(device, out); }
  /// The session is over: its leases count as infrastructure failures.
  std::vector<lease_result> host_lost(session_id session, nanoseconds_t now);
  /// The same of a host that said goodbye: what it held is returned, which is no failure.
  std::vector<lease_result> host_left(session_id session, nanoseconds_t now);

  /// The next job to send, or nothing until there is a new job or new credit. The lease runs from
  /// now.
  std::optional<job_order> next(nanoseconds_t now);

  /// VERDICT. `now` decides whether it is late.
  lease_result verdict(session_id session, lease_id id, env::verdict_kind kind, nanoseconds_t now);
  /// VERDICT `ok` with a large claim of `claim_e2` that is not confirmed. It is measured again
  /// (outcome `retry`, once for each job): by another device of the class where one takes work,
  /// else by the same one, in fresh processes. The verdict of a host that claims anew counts,
  /// capped as it is.
  lease_result claimed(session_id session, lease_id id, std::int64_t claim_e2, nanoseconds_t now);
  /// FAILED: the host could not evaluate.
  lease_result failed(session_id session, lease_id id, nanoseconds_t now);
  /// FAILED, returned: it did not begin. Outcome `returned`, or as of `failed`.
  lease_result returned(session_id session, lease_id id, nanoseconds_t now);
  void committed(lease_id id) { leases_.committed(id); }

  /// Leases that ran out; each is to be cancelled at its holder, which may still be at work on it.
  std::vector<lease_book::expired> expire(nanoseconds_t now);
  /// When `expire` or `next` has something to do at the earliest: a lease runs out, a pause ends.
  [[nodiscard]] std::optional<nanoseconds_t> next_deadline() const;
  /// Jobs that wait for the end of a pause.
  [[nodiscard]] std::size_t pausing() const { return pausing_.size(); }

  [[nodiscard]] const lease_book& leases() const { return leases_; }
  [[nodiscard]] const dispatcher& queue() const { return queue_; }
  /// No job waits, is leased or awaits a commit.
  [[nodiscard]] bool idle() const { return leases_.jobs() == 0; }

 private:
  lease_result settle(lease_result result, nanoseconds_t now);
  std::vector<lease_result> settle_all(std::vector<lease_result> results, nanoseconds_t now);
  void end_pauses(nanoseconds_t now);

  struct evaluation {
    job_request job;
    std::optional<device_key> last;
    bool recheck = false;
    std::int64_t claim_e2 = 0;
    bool has_claimed = false;
    bool other_bears_out = false;  ///< another device than the one that claimed
  };
  /// Where the job goes next, after an attempt that counts for nothing; whether it waits first.
  bool send_elsewhere(evaluation& work, const lease_result& result) const;

  lease_book leases_;
  dispatcher queue_;
  retry_pause pause_;
  std::unordered_map<sample_id, evaluation> jobs_;
  std::multimap<nanoseconds_t, sample_id> pausing_;  ///< by the end of the pause
};

}  // namespace quern::actors
