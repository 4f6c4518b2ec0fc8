// What goes into the ledger and what comes out of it: plain values, one struct per kind of row.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "storage/sample_state.hpp"

namespace quern::storage {

/// A stretch of the policy's tokens that one set of weights made: from `first_token` to the next
/// segment.
struct segment {
  std::int64_t first_token = 0;  ///< counts the policy's tokens alone, over all turns
  std::int64_t version = 0;
  base::hash128 weights;
  bool operator==(const segment&) const = default;
};

/// A group to issue: one prompt, `size` samples of it. `seq` is its place in issue order, counted
/// from 0 without a gap. `exemplars` are ids of the archive.
struct group_spec {
  std::int64_t seq = 0;
  std::string task;
  std::vector<std::int64_t> exemplars;
  base::hash128 prompt_hash;
  base::hash128 template_hash;
  int size = 0;
};

/// Its samples have the ids first_sample .. first_sample + size - 1, in the order of k. Ids depend
/// on issue order alone, so randomness may be addressed by them.
struct issued_group {
  std::int64_t group = 0;
  std::int64_t first_sample = 0;
};

/// Tokens of a sample that have arrived and are stored as a blob. `incarnation`: when they were
/// asked for.
struct generation {
  std::int64_t sample = 0;
  std::int64_t incarnation = 0;
  std::vector<segment> segments;  ///< first starts at token 0; tokens and versions ascend
  base::hash128 tokens_hash;
};

/// A verdict that has arrived. `counts`: it decides the sample (ok, wrong_value, malformed, ...);
/// otherwise (noisy, infra_error, ...) it is kept and the sample stays `generated`, to be measured
/// again as attempt + 1 or dropped.
struct verdict_row {
  std::int64_t sample = 0;
  std::int64_t incarnation = 0;
  std::int64_t attempt = 0;
  bool counts = true;
  std::string task;
  std::optional<base::hash128> source_hash;  ///< none when there is no code (malformed)
  std::string protocol;
  std::string device_class;
  std::string env;
  std::optional<std::int64_t> speedup_e2;  ///< hundredths
  bool confirmed = false;
  std::string json;  ///< the whole verdict, opaque here
};

/// What became of something that arrived from another process.
enum class arrival : std::uint8_t {
  accepted,
  late,  ///< the sample or the attempt has its answer already: ignored
  stale  ///< asked for in an earlier incarnation: ignored
};

struct arrived {
  arrival outcome = arrival::accepted;
  std::int64_t id = 0;  ///< of the verdict's row, when accepted
};

struct admission {
  std::int64_t sample = 0;
  double reward = 0;  ///< finite
};

struct checkpoint_row {
  std::int64_t version = 0;
  std::int64_t incarnation = 0;  ///< filled in by the ledger
  std::string path;              ///< relative to the run directory
  base::hash128 hash;            ///< of its MANIFEST.json
};

/// How a new incarnation is opened. `from_version`: the checkpoint that the run goes on from, 0 for
/// the weights it began with. `tokens_readable` says whether a sample's tokens can still be read;
/// empty means yes for all.
struct incarnation_request {
  std::string reason;
  std::int64_t from_version = 0;
  std::function<bool(std::int64_t sample, const base::hash128& tokens)> tokens_readable;
};

struct incarnation_report {
  std::int64_t incarnation = 0;
  std::int64_t from_version = 0;
  std::int64_t readmitted = 0;  ///< gradient steps that were lost: back to admitted
  std::int64_t reissued = 0;    ///< made by weights that no longer exist: back to issued
  std::int64_t unreadable = 0;  ///< tokens gone: back to issued
};

struct sample_row {
  std::int64_t id = 0;
  std::int64_t group = 0;
  int k = 0;
  sample_state state = sample_state::issued;
  std::int64_t incarnation = 0;  ///< in which it was last issued
  std::optional<std::int64_t> v_min;
  std::optional<std::int64_t> v_max;
  std::vector<segment> segments;
  std::optional<base::hash128> tokens_hash;
  std::optional<base::hash128> source_hash;
  std::optional<std::int64_t> verdict_id;
  std::optional<double> reward;
  std::optional<std::int64_t> step;  ///< the version that the gradient step with it made
  std::string drop_reason;
};

struct group_row {
  std::int64_t id = 0;
  std::int64_t seq = 0;
  std::string task;
  std::vector<std::int64_t> exemplars;
  base::hash128 prompt_hash;
  base::hash128 template_hash;
  std::int64_t incarnation = 0;
  std::vector<sample_row> samples;  ///< in the order of k
};

struct event_row {
  std::int64_t seq = 0;
  std::int64_t sample = 0;
  std::optional<sample_state> from;  ///< none: the sample was born
  sample_state to = sample_state::issued;
  std::int64_t incarnation = 0;
  base::nanoseconds_t t_ns = 0;
};

/// Where the run stands.
struct ledger_position {
  std::int64_t incarnation = 0;              ///< 0: none opened yet
  std::int64_t version = 0;                  ///< of the newest gradient step that survives
  std::optional<checkpoint_row> checkpoint;  ///< the newest that survives
  std::int64_t next_seq = 0;
};

/// How old samples were when they were used: age = step - 1 - v_min.
struct age_counts {
  std::map<std::int64_t, std::int64_t> by_age;
  std::int64_t mixed = 0;  ///< samples with tokens of more than one version
};

}  // namespace quern::storage
