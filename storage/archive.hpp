// The archive: every variant that was ever tried, with its score, its parents and its source.
// Rows live in run.db, sources in blobs/, score buckets in memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/hash.hpp"
#include "storage/blobs.hpp"
#include "storage/buckets.hpp"
#include "storage/database.hpp"

namespace quern::storage {

/// Where scores may be compared: never across device classes or protocols.
struct variant_key {
  std::string task;
  std::string device_class;
  std::string protocol;
  auto operator<=>(const variant_key&) const = default;
};

struct variant {
  std::int64_t id = 0;
  variant_key key;
  base::hash128 source_hash;  ///< of the canonical source: identity within the key
  base::hash128 text_hash;    ///< of the text as it was written: where the blob is
  std::optional<std::int64_t> verdict_id;
  std::optional<std::int64_t> speedup_e2;  ///< none: not ok, never an exemplar
  std::int64_t version = 0;                ///< the first policy version whose prompts may show it
  std::int64_t incarnation = 0;
  std::int64_t sample = 0;            ///< that made it; 0: it was brought along
  std::vector<std::int64_t> parents;  ///< exemplars of its prompt
};

/// What becomes of variants from versions that a rollback took away.
enum class lost_variants {
  keep,   ///< a measured kernel stays a measured kernel: known from the version rolled back to
  forget  ///< as if never tried, until tried again: for runs that must repeat exactly
};

/// Whose variants are asked for.
enum class variants_of {
  everybody,
  the_policy,    ///< not those that were brought along
  brought_along  ///< those alone
};

struct archive_options {
  bucket_edges edges = equal_buckets(25, 40);
  lost_variants lost = lost_variants::keep;
};

struct recorded {
  std::int64_t id = 0;
  bool fresh = false;  ///< false: the same canonical source was known under this key
};

/// One thread at a time. Writes belong to the database's batch; a source is durable before its row.
class archive {
 public:
  /// Reads all rows into buckets: about a second for a million. `db` and `blobs` must outlive it.
  static base::expected<std::unique_ptr<archive>> open(database& db, const blob_store& blobs,
                                                       archive_options options = {});
  ~archive();

  /// Remembers a variant (`id`, `incarnation` and `text_hash` are filled in here). One with a known
  /// canonical source changes nothing and gives the known id.
  base::expected<recorded> record(const variant& fresh, std::string_view text);

  /// A second measurement moved the score.
  base::status rescore(std::int64_t id, std::int64_t verdict_id,
                       std::optional<std::int64_t> speedup_e2);

  /// Reads all rows again. For reads after an incarnation was opened over a living archive
  /// (versions may have gone back); writes notice a new incarnation by themselves.
  base::status rebuild();

  [[nodiscard]] base::expected<variant> get(std::int64_t id) const;
  [[nodiscard]] base::expected<std::string> text(const variant& of) const;
  [[nodiscard]] base::expected<std::optional<variant>> find(const variant_key& key,
                                                            const base::hash128& source) const;
  /// The best score known as of `version`; none: cold start.
  [[nodiscard]] base::expected<std::optional<variant>> best(
      const variant_key& key, std::int64_t version,
      variants_of whose = variants_of::everybody) const;

  /// The `most` best scores known as of `version`, the best first; of equal ones the older first.
  [[nodiscard]] base::expected<std::vector<variant>> fastest(
      const variant_key& key, std::int64_t version, std::size_t most,
      variants_of whose = variants_of::everybody) const;

  /// Buckets to draw exemplars from; null when nothing of this key and origin has a score. The
  /// pointer is good until the next record, rescore or rebuild.
  [[nodiscard]] const score_buckets* buckets(const variant_key& key,
                                             variants_of whose = variants_of::everybody) const;

  /// Keys with at least one scored variant.
  [[nodiscard]] std::vector<variant_key> keys() const;

 private:
  struct statements;
  /// The scored variants of one key: all of them, and by origin.
  struct key_buckets {
    explicit key_buckets(const bucket_edges& edges)
        : everybody(edges), the_policy(edges), brought_along(edges) {}
    /// Those of the origin of a member that `sample` made (0: brought along).
    score_buckets& by_origin(std::int64_t sample) {
      return sample == 0 ? brought_along : the_policy;
    }
    [[nodiscard]] const score_buckets& of(variants_of whose) const;
    score_buckets everybody;
    score_buckets the_policy;
    score_buckets brought_along;
  };
  archive(database& db, const blob_store& blobs, archive_options options);
  base::status follow_incarnation();
  [[nodiscard]] bool is_lost(std::int64_t version, std::int64_t incarnation) const;
  [[nodiscard]] std::int64_t known_from(std::int64_t version, std::int64_t incarnation) const;
  [[nodiscard]] base::expected<std::optional<variant>> find_any(const variant_key& key,
                                                                const base::hash128& source) const;
  /// Into its bucket, and out of it again.
  void place(const variant_key& key, bucket_member member, std::int64_t incarnation);
  void displace(const variant& known);

  database& db_;
  const blob_store& blobs_;
  archive_options options_;
  std::unique_ptr<statements> sql_;
  std::map<variant_key, key_buckets> buckets_;
  std::int64_t incarnation_ = 0;  ///< the current one
  /// For each incarnation the lowest version that it or a later one went back to.
  std::map<std::int64_t, std::int64_t> cut_;
};

}  // namespace quern::storage
