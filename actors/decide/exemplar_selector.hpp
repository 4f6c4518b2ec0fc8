// Which earlier variants a prompt shows. Contrast is the point: two codes whose scores clearly
// differ, so that there is something to explain.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// The archived variants of one (task, device class, protocol), sorted into score buckets
/// B_k = [k * width, (k + 1) * width). Only buckets that hold something are listed. The storage
/// side implements it over its index; calls cost O(1), so that a choice does not depend on how many
/// variants there are. A view is a snapshot: it does not change while it is read, and in
/// deterministic mode it ends at the archive horizon of the group.
class bucket_view {
 public:
  virtual ~bucket_view() = default;
  [[nodiscard]] virtual std::size_t buckets() const = 0;
  /// Variants in bucket i, at least 1.
  [[nodiscard]] virtual std::size_t size(std::size_t bucket) const = 0;
  /// Mean speed-up of bucket i (1.0 = as fast as the baseline).
  [[nodiscard]] virtual double mean_score(std::size_t bucket) const = 0;
};

/// Position of a variant in the view: the k-th of bucket i, in the order in which they came.
struct exemplar_pick {
  std::size_t bucket = 0;
  std::size_t index = 0;
  bool operator==(const exemplar_pick&) const = default;
};

enum class exemplar_strategy {
  bucket,  ///< CUDA-L1 2.4.3: softmax over bucket means, distinct buckets, uniform inside
  island,  ///< the same, among the variants of one island only (FunSearch)
  random   ///< uniform over all variants, distinct
};
std::string_view to_string(exemplar_strategy strategy);
base::expected<exemplar_strategy> parse_exemplar_strategy(std::string_view text);

struct exemplar_options {
  exemplar_strategy strategy = exemplar_strategy::bucket;
  std::size_t count = 2;
  double temperature = 1.0;  ///< tau of P(B_i) = exp((s_i - mean s) / tau) / sum; > 0
  std::size_t islands = 4;
};

/// Chooses `count` variants, fewer when there are not that many; never one twice.
///
/// bucket: buckets are drawn one after another by P without replacement, then one variant
///   uniformly from each. Cold start: with fewer buckets than `count`, the rest is drawn uniformly
///   from the variants not yet chosen; with one variant it is shown alone; with none the prompt
///   has no exemplars, a form that the policy knows from fine-tuning.
/// island: variant k of a bucket belongs to island k mod islands; an island is drawn uniformly
/// among
///   those with variants (islands above the size of the largest bucket are empty), then `bucket` in
///   it.
/// random: uniform without replacement.
///
/// All numbers come from `random`, addressed by the caller with (run seed, "exemplar", group), so
/// that a choice repeats. Order: ascending by mean score of bucket, as the prompt lists them. Pure;
/// any thread. Errors: invalid_argument for options out of range.
base::expected<std::vector<exemplar_pick>> choose_exemplars(const bucket_view& view,
                                                            const exemplar_options& options,
                                                            base::random_stream random);

/// Islands of one task, for callers that keep an archive for each: which island group `sequence`
/// reads from and adds to.
std::size_t island_of(std::uint64_t seed, std::int64_t sequence, std::size_t islands);

}  // namespace quern::actors
