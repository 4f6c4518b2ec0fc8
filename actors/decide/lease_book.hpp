// Who works on what until when. A job is given to one holder at a time under a lease with a
// deadline; the first result that arrives under a living lease counts and no other ever does.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "actors/decide/ids.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// Why an attempt gave nothing that counts. Each has its own bound: noise says something about the
/// host, infrastructure about the machine, and neither about the candidate. `unsupported` is never
/// tried again, since every host of the class would say the same.
enum class retry_cause { noisy, infra_error, invalid_reference, unconfirmed, unsupported };
constexpr int retry_causes = 5;
std::string_view to_string(retry_cause cause);

/// How often a job is tried again for each cause before its sample is dropped with that reason.
/// env.max_attempts decides it in a run (`within`); there are no defaults.
struct retry_limits {
  int noisy;
  int infra_error;
  int invalid_reference;
  int unconfirmed;
  [[nodiscard]] int of(retry_cause cause) const;
  /// Limits under which no cause takes more than `attempts` evaluations of a sample. A reference
  /// that does not hold and a claim that was not borne out are tried again once at most: a third
  /// answer would tell nothing new.
  static retry_limits within(std::int64_t attempts);
};

struct lease {
  lease_id id = 0;
  sample_id sample = 0;
  int attempt = 1;  ///< counted from 1; (sample, incarnation, attempt) is unique in the ledger
  session_id holder = 0;
  nanoseconds_t deadline = 0;
};

/// What becomes of a result or of a lost lease.
enum class lease_outcome {
  accepted,   ///< the result counts; acknowledge it after the commit
  pending,    ///< the same result again while its commit is under way: stay silent
  repeated,   ///< the same result again after its commit: acknowledge it as accepted
  retry,      ///< the attempt gave nothing; the job has to be queued again
  exhausted,  ///< the attempt gave nothing and was the last: drop the sample with the cause
  late,       ///< the lease has expired or was taken back: logged, acknowledged as not accepted
  unknown,    ///< never given, forgotten, or given to another session or in another incarnation
  returned,   ///< given back; the job has to be queued again, and the attempt is not used up
};

struct lease_result {
  lease_outcome outcome = lease_outcome::unknown;
  sample_id sample = 0;
  int attempt = 0;                               ///< of this result
  retry_cause cause = retry_cause::infra_error;  ///< for retry and exhausted
  int failures = 0;  ///< for retry: attempts of the job that failed for this cause, this one too
};

/// Not thread-safe. Memory is bounded: closed leases are forgotten after `remembered` newer ones.
class lease_book {
 public:
  struct limits {
    /// `time`: how long a holder may keep a job, in ns.
    limits(retry_limits most_retries, nanoseconds_t time) : retries(most_retries), lease_ns(time) {}
    retry_limits retries;
    nanoseconds_t lease_ns;
    std::size_t remembered = 4096;
    int most_returns = 32;
  };

  lease_book(incarnation_id incarnation, limits bounds);

  /// Makes a job known; conflict if it already is. `attempt`: the first number that the ledger does
  /// not hold yet.
  base::status add(sample_id sample, int attempt = 1);
  /// Forgets a job whatever its state (its group was dropped); returns the living lease, if there
  /// is one, so that the holder can be told to cancel.
  std::optional<lease> remove(sample_id sample);

  /// Leases a known job that nobody holds. Errors: not_found, conflict.
  base::expected<lease> grant(sample_id sample, session_id holder, nanoseconds_t now);

  /// A result under a lease. Without a cause it is final and the job is done once it is accepted.
  /// With one it is a measurement that cannot count: retry or exhausted.
  lease_result result(lease_id id, session_id holder, std::optional<retry_cause> cause,
                      nanoseconds_t now);
  /// The holder did not begin and cannot. After `most_returns` of one job it counts as an
  /// infrastructure failure, so that no job is sent about for ever.
  lease_result give_back(lease_id id, session_id holder, nanoseconds_t now);
  /// A result that stands, but is to be measured once more: `retry`, without being a failure.
  lease_result measure_again(lease_id id, session_id holder, nanoseconds_t now);
  /// The commit of an accepted or exhausted result is durable.
  void committed(lease_id id);

  struct expired {
    lease held;
    lease_result result;
  };
  /// Leases whose deadline is at or before `now` count as infrastructure failures.
  std::vector<expired> expire(nanoseconds_t now);
  /// All leases of a session that ended; the same.
  std::vector<lease_result> lose(session_id holder);
  /// All leases of a holder that ended in order: `returned`, begun or not, within `most_returns`.
  std::vector<lease_result> leave(session_id holder);

  /// How often a cause is tried again.
  [[nodiscard]] const retry_limits& retries() const { return limits_.retries; }
  [[nodiscard]] std::optional<nanoseconds_t> next_deadline() const;
  [[nodiscard]] const lease* find(lease_id id) const;
  /// The living lease of a job.
  [[nodiscard]] const lease* holding(sample_id sample) const;
  /// Jobs that are known: queued, leased or waiting for a commit.
  [[nodiscard]] std::size_t jobs() const { return jobs_.size(); }
  [[nodiscard]] std::size_t leased() const { return open_.size(); }
  [[nodiscard]] std::int64_t late_results() const { return late_; }

 private:
  struct job {
    int attempt = 0;
    int failures[retry_causes] = {};
    int returns = 0;
    lease_id open = 0;
  };
  enum class closing { committing, done, lost };
  struct closed {
    session_id holder;
    sample_id sample;
    int attempt;
    closing state;
  };

  lease_result fail(const lease& held, retry_cause cause);
  /// By age.
  [[nodiscard]] std::vector<lease> leases_of(session_id holder) const;
  /// The living lease that this holder may still answer.
  [[nodiscard]] const lease* answerable(lease_id id, session_id holder, nanoseconds_t now) const;
  void close(lease_id id, closing state);

  incarnation_id incarnation_;
  limits limits_;
  lease_id next_;
  std::unordered_map<sample_id, job> jobs_;
  std::unordered_map<lease_id, lease> open_;
  std::multimap<nanoseconds_t, lease_id> deadlines_;
  std::map<lease_id, closed> closed_;
  std::int64_t late_ = 0;
};

}  // namespace quern::actors
