// Which earlier variants a prompt shows. Contrast is the point: two codes whose scores clearly
// differ, so that there is something to explain.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "base/status.hpp"
#include "storage/buckets.hpp"

namespace quern::actors {

/// The k-th member of one bucket of the archive: what `storage::score_buckets::draw` takes.
struct exemplar_pick {
  int bucket = 0;      ///< index in the edges, as in bucket_summary
  std::int64_t k = 0;  ///< below its count
  bool operator==(const exemplar_pick&) const = default;
};

enum class exemplar_strategy {
  bucket,  ///< CUDA-L1 2.4.3: softmax over bucket means, distinct buckets, uniform inside
  island,  ///< the same, among the variants of one island only (after FunSearch)
  random   ///< uniform over all variants, distinct
};
std::string_view to_string(exemplar_strategy strategy);
base::expected<exemplar_strategy> parse_exemplar_strategy(std::string_view text);

struct exemplar_options {
  exemplar_strategy strategy = exemplar_strategy::bucket;
  std::int64_t count = 2;
  double temperature = 1.0;  ///< tau of P(B_i) = exp((s_i - mean s) / tau) / sum; above 0
  std::int64_t islands = 4;
  bool highest_only = false;  ///< leave out all but the `count` highest buckets that are not empty
};

/// Chooses `count` variants, fewer when there are not that many, never one twice. `buckets` are
/// those of one (task, device class, protocol) that are not empty, as of some version
/// (`score_buckets::as_of`); the cost depends on their number, not on the number of variants.
///
/// bucket: buckets are drawn one after another by P without replacement, then one variant
///   uniformly from each. Cold start: with fewer buckets than `count`, the rest is drawn uniformly
///   from the variants not yet chosen; with one variant it is shown alone; with none the prompt has
///   no exemplars, a form that the policy knows from fine-tuning.
/// island: member k of a bucket lives on island k mod `islands`; an island is drawn in proportion
///   to its variants, then `bucket` chooses on it. Bucket means are those of all islands.
/// random: uniform without replacement.
///
/// All numbers come from `random`, which the caller addresses by (run seed, "exemplar", group
/// sequence), so that a choice repeats. Order: by rising score, as the prompt lists them.
/// Pure; any thread. Errors: invalid_argument for options out of range.
base::expected<std::vector<exemplar_pick>> choose_exemplars(
    std::span<const storage::bucket_summary> buckets, const exemplar_options& options,
    base::random_stream random);

}  // namespace quern::actors
