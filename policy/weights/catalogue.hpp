// The parameter catalogue: where each parameter of a model lies in one flat arena. It describes
// every copy of the weights (learner, generator, checkpoint in memory), so that a shard is a range
// and a transfer is a plan between two catalogues (plan.hpp).
//
// The arena is a row of buckets: "embed", "layer.0" ... "layer.(L-1)", "head" (final norm and,
// where it is not tied, the output projection). Each bucket is padded so that every one of `ranks`
// optimiser shards is an equal, aligned range of it. Parameters that are used as one matrix (q, k,
// v; gate, up) lie next to each other without a gap, so that a fused view needs no copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"
#include "policy/text/model_config.hpp"
#include "policy/weights/dtype.hpp"

namespace quern::policy {

/// How tensor parallelism divides a parameter.
enum class partition : std::uint8_t {
  whole,    ///< every rank holds all of it (norms)
  rows,     ///< by the first dimension (embedding, q, k, v and their biases, gate, up, lm_head)
  columns,  ///< by the second dimension (o, down)
};

/// One logical tensor under its Hugging Face name. Offsets and counts are in elements.
struct parameter {
  std::string name;
  std::vector<std::int64_t> shape;  ///< of the whole tensor, one or two dimensions
  partition part = partition::whole;
  std::int32_t bucket = 0;        ///< index into catalogue::buckets
  std::int64_t offset = 0;        ///< of its first element here, from the start of the arena
  std::int64_t row_begin = 0;     ///< the part that this arena holds, row-major:
  std::int64_t row_end = 0;       ///<   rows [row_begin, row_end) of the first dimension,
  std::int64_t column_begin = 0;  ///<   columns [column_begin, column_end) of the second
  std::int64_t column_end = 1;    ///<   (of one column for a vector)

  std::int64_t rows() const { return row_end - row_begin; }
  std::int64_t columns() const { return column_end - column_begin; }
  /// Elements held here.
  std::int64_t count() const { return rows() * columns(); }
  bool operator==(const parameter&) const = default;
};

/// A padded range of the arena: [begin, begin + size), of which the first `used` elements hold
/// parameters; the rest, and the gaps that alignment leaves, are zero and stay zero.
struct bucket {
  std::string name;
  std::int64_t begin = 0;
  std::int64_t size = 0;
  std::int64_t used = 0;
  bool operator==(const bucket&) const = default;
};

/// A range of elements of the arena.
struct element_range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const element_range&) const = default;
};

/// Where something lies and the shape to view it in.
struct placement {
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape;
};

/// How one process of a parallel run holds the weights.
struct layout {
  std::int32_t ranks = 1;        ///< optimiser shards (ZeRO): every bucket divides by it
  std::int32_t tensor_rank = 0;  ///< this process in its tensor-parallel group
  std::int32_t tensor_size = 1;  ///< divides heads, kv_heads, intermediate and vocabulary
  bool operator==(const layout&) const = default;
};

struct catalogue {
  weight_dtype dtype = weight_dtype::f32;
  layout place;
  std::vector<bucket> buckets;
  std::vector<parameter> parameters;  ///< ordered by offset
  std::int64_t elements = 0;          ///< of the arena, a sum over buckets

  std::size_t bytes() const { return static_cast<std::size_t>(elements) * size_of(dtype); }
  /// Null if there is none. Binary search is not worth it: call it while building views, not in
  /// loops.
  const parameter* find(std::string_view name) const;
  /// Besides every parameter's own name, the fused names of a layer are known:
  /// "model.layers.N.self_attn.qkv_proj.weight" (and ".bias") and
  /// "model.layers.N.mlp.gate_up_proj.weight". Shapes are those held here.
  base::expected<placement> place_of(std::string_view name) const;
  /// The range of `bucket_index` that optimiser shard `rank` of `place.ranks` owns.
  element_range shard(std::int32_t bucket_index, std::int32_t rank) const;
  /// Of everything above: two arenas with equal layout hashes may be copied flat.
  base::hash128 layout_hash() const;
  bool operator==(const catalogue&) const = default;
};

/// Every bucket starts, and each of its shards begins, at a multiple of this many elements, and
/// every fused group or single parameter at a multiple of parameter_alignment (256 bytes and more).
inline constexpr std::int64_t shard_alignment = 512;
inline constexpr std::int64_t parameter_alignment = 128;

/// The catalogue of a model. Refused: sizes that the layout does not divide, ranks out of range.
base::expected<catalogue> make_catalogue(const model_config& config, weight_dtype dtype,
                                         const layout& place = {});

}  // namespace quern::policy
