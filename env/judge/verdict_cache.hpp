// Verdicts of sources seen before: what stays valid, what is measured again, what is pooled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "env/measure/estimate.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// A verdict is valid for the same of all of these (docs/formats/verdict.md).
struct verdict_key {
  std::string task;      ///< task_id
  std::string source;    ///< hash of the canonical source
  std::string protocol;  ///< with "+verify" for evaluations that stop after the checks
  std::string device_class;
  std::string env;
  [[nodiscard]] std::string text() const;
};

/// What is kept of an evaluation.
struct cached_verdict {
  verdict kept_verdict;
  std::vector<process_pairs> runs;       ///< of every measurement, for pooling
  std::optional<std::int64_t> claim_e2;  ///< first large claim as measured, not capped
};

/// Least recently used entries go first. Plain memory; thread-compatible.
class verdict_cache {
 public:
  /// Pairs of processes that are kept for pooling; the oldest go first.
  static constexpr std::size_t max_runs = 4;

  explicit verdict_cache(std::size_t entries = 100'000) : limit_(entries) {}

  /// The entry, now the most recently used; null if there is none. Valid until the next call.
  const cached_verdict* find(const verdict_key& key);

  /// Keeps a cacheable verdict, replacing what was there. One that is not cacheable replaces
  /// nothing, but an unconfirmed claim takes an older `ok` away: it is in doubt.
  void store(const verdict_key& key, cached_verdict entry);

  [[nodiscard]] std::size_t size() const { return order_.size(); }

 private:
  using entry = std::pair<std::string, cached_verdict>;
  std::size_t limit_;
  std::list<entry> order_;
  std::unordered_map<std::string, std::list<entry>::iterator> index_;
};

/// Whether a cached verdict must be measured again although it is there: an `ok`, with probability
/// `p`, addressed by the evaluation's seed and the key.
bool measure_again(const verdict& cached, const verdict_key& key, std::uint64_t seed, double p);

}  // namespace quern::env
