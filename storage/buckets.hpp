// Variants of one task sorted into score buckets, in memory: what exemplars are drawn from. Answers
// "as of version v" for every v, so that a prompt can be made again later from the same archive.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"

namespace quern::storage {

/// Lower edges of the buckets in hundredths of a speed-up, ascending, the first 0: bucket i holds
/// [edges[i], edges[i+1]), the last is open.
using bucket_edges = std::vector<std::int64_t>;

/// `count` buckets of `width_e2` each; the last one takes everything above.
bucket_edges equal_buckets(std::int64_t width_e2, int count);

/// `invalid_argument` unless the edges ascend from 0.
base::status check_edges(const bucket_edges& edges);

/// A bucket that is not empty.
struct bucket_summary {
  int bucket = 0;           ///< its index in the edges
  std::int64_t low_e2 = 0;  ///< its lower edge
  std::int64_t count = 0;   ///< members
  std::int64_t sum_e2 = 0;  ///< of their scores, exact
  [[nodiscard]] double mean() const {
    return static_cast<double>(sum_e2) / static_cast<double>(count) / 100.0;
  }
};

/// A member as it is put in. `order` decides the place among members of one version (the sample
/// that made it), so that a draw does not depend on the order of arrival; ties by id.
struct bucket_member {
  std::int64_t id = 0;
  std::int64_t order = 0;
  std::int64_t version = 0;
  std::int64_t score_e2 = 0;
};

/// The buckets of one (task, device class, protocol). Reads cost O(buckets x log versions); putting
/// in costs O(1) while versions ascend. Not thread-safe.
class score_buckets {
 public:
  /// `edges` must outlive this.
  explicit score_buckets(const bucket_edges& edges);

  void insert(const bucket_member& member);
  /// Takes out the member that was put in with exactly these values; false when there is none.
  bool erase(const bucket_member& member);

  /// Buckets that have members of version <= `version`, by rising score. Empty: cold start.
  [[nodiscard]] std::vector<bucket_summary> as_of(std::int64_t version) const;

  /// The k-th member of bucket `which` among those of version <= some version whose count is above
  /// k: with k uniform in [0, count) a uniform draw. The id, or `invalid_argument`.
  [[nodiscard]] base::expected<std::int64_t> draw(int which, std::int64_t k) const;

  [[nodiscard]] std::int64_t size() const;

 private:
  struct entry {
    std::int64_t id;
    std::int64_t order;
  };
  /// Members of one version: entries before `end` are of this version or earlier ones.
  struct run {
    std::int64_t version;
    std::int64_t end;
    std::int64_t sum_e2;  ///< of all entries before `end`
  };
  struct bucket {
    std::vector<entry> entries;  ///< by (version, order, id)
    std::vector<run> runs;       ///< by version
  };

  [[nodiscard]] int bucket_of(std::int64_t score_e2) const;

  const bucket_edges* edges_;
  std::vector<bucket> buckets_;
};

}  // namespace quern::storage
