// Lays the parameters of a model out in buckets, and answers where they are.
#include "policy/weights/catalogue.hpp"

#include <array>

namespace quern::policy {

using base::errc;
using base::expected;
using base::fail;

namespace {

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

class layout_builder {
 public:
  layout_builder(const model_config& config, catalogue& out) : config_(config), out_(out) {}

  void build() {
    const std::int64_t d = config_.hidden_size;
    open("embed");
    add("model.embed_tokens.weight", {config_.vocab_size, d}, partition::rows);
    close();
    for (std::int64_t i = 0; i < config_.layers; ++i)
      layer(i);
    open("head");
    add("model.norm.weight", {d}, partition::whole);
    if (!config_.tied_embeddings) add("lm_head.weight", {config_.vocab_size, d}, partition::rows);
    close();
  }

 private:
  void layer(std::int64_t index) {
    const std::int64_t d = config_.hidden_size;
    const std::int64_t q = config_.q_size();
    const std::int64_t kv = config_.kv_size();
    const auto head = fmt::format("model.layers.{}.", index);
    open(fmt::format("layer.{}", index));
    add(head + "input_layernorm.weight", {d}, partition::whole);
    add(head + "self_attn.q_proj.weight", {q, d}, partition::rows);
    join(head + "self_attn.k_proj.weight", {kv, d}, partition::rows);
    join(head + "self_attn.v_proj.weight", {kv, d}, partition::rows);
    if (config_.qkv_bias()) {
      add(head + "self_attn.q_proj.bias", {q}, partition::rows);
      join(head + "self_attn.k_proj.bias", {kv}, partition::rows);
      join(head + "self_attn.v_proj.bias", {kv}, partition::rows);
    }
    if (config_.qk_norm()) {
      add(head + "self_attn.q_norm.weight", {config_.head_dim}, partition::whole);
      add(head + "self_attn.k_norm.weight", {config_.head_dim}, partition::whole);
    }
    add(head + "self_attn.o_proj.weight", {d, q}, partition::columns);
    add(head + "post_attention_layernorm.weight", {d}, partition::whole);
    add(head + "mlp.gate_proj.weight", {config_.intermediate_size, d}, partition::rows);
    join(head + "mlp.up_proj.weight", {config_.intermediate_size, d}, partition::rows);
    add(head + "mlp.down_proj.weight", {d, config_.intermediate_size}, partition::columns);
    close();
  }

  void open(std::string name) {
    out_.buckets.push_back({std::move(name), out_.elements, 0, 0});
    at_ = out_.elements;
  }

  /// A parameter of its own, aligned.
  void add(std::string name, std::vector<std::int64_t> shape, partition part) {
    at_ = round_up(at_, parameter_alignment);
    join(std::move(name), std::move(shape), part);
  }

  /// Right after the one before: together they are one matrix.
  void join(std::string name, std::vector<std::int64_t> shape, partition part) {
    parameter p{std::move(name), std::move(shape), part};
    p.bucket = static_cast<std::int32_t>(out_.buckets.size()) - 1;
    p.offset = at_;
    p.row_end = p.shape[0];
    p.column_end = p.shape.size() == 2 ? p.shape[1] : 1;
    const auto& place = out_.place;
    if (part == partition::rows) {
      const std::int64_t share = p.row_end / place.tensor_size;
      p.row_begin = place.tensor_rank * share;
      p.row_end = p.row_begin + share;
    } else if (part == partition::columns) {
      const std::int64_t share = p.column_end / place.tensor_size;
      p.column_begin = place.tensor_rank * share;
      p.column_end = p.column_begin + share;
    }
    at_ += p.count();
    out_.parameters.push_back(std::move(p));
  }

  void close() {
    bucket& open_bucket = out_.buckets.back();
    open_bucket.used = at_ - open_bucket.begin;
    open_bucket.size = round_up(open_bucket.used, shard_alignment * out_.place.ranks);
    out_.elements = open_bucket.begin + open_bucket.size;
  }

  const model_config& config_;
  catalogue& out_;
  std::int64_t at_ = 0;
};

base::status check_layout(const model_config& config, const layout& place) {
  if (place.ranks < 1 || place.ranks > 65536)
    return fail(errc::invalid_argument, "{} optimiser shards; 1 to 65536 are possible",
                place.ranks);
  if (place.tensor_size < 1 || place.tensor_rank < 0 || place.tensor_rank >= place.tensor_size)
    return fail(errc::invalid_argument, "tensor-parallel rank {} of {} does not exist",
                place.tensor_rank, place.tensor_size);
  const std::array<std::pair<const char*, std::int64_t>, 4> divided{
      {{"num_attention_heads", config.heads},
       {"num_key_value_heads", config.kv_heads},
       {"intermediate_size", config.intermediate_size},
       {"vocab_size", config.vocab_size}}};
  for (const auto& [name, value] : divided)
    if (value % place.tensor_size != 0)
      return fail(errc::invalid_argument, "{} is {}, which {} tensor-parallel ranks do not divide",
                  name, value, place.tensor_size);
  return {};
}

/// The shape held here.
std::vector<std::int64_t> local_shape(const parameter& p) {
  if (p.shape.size() == 1) return {p.rows()};
  return {p.rows(), p.columns()};
}

}  // namespace

expected<catalogue> make_catalogue(const model_config& config, weight_dtype dtype,
                                   const layout& place) {
  QUERN_CHECK(validate(config));
  QUERN_CHECK(check_layout(config, place));
  catalogue out;
  out.dtype = dtype;
  out.place = place;
  layout_builder(config, out).build();
  return out;
}

const parameter* catalogue::find(std::string_view name) const {
  for (const auto& p : parameters)
    if (p.name == name) return &p;
  return nullptr;
}

expected<placement> catalogue::place_of(std::string_view name) const {
  if (const parameter* p = find(name)) return placement{p->offset, local_shape(*p)};
  struct fusion {
    std::string_view fused;
    std::string_view first;
    std::size_t parts;
  };
  constexpr std::array<fusion, 2> fusions{
      {{"qkv_proj", "q_proj", 3}, {"gate_up_proj", "gate_proj", 2}}};
  for (const auto& [fused, first, parts] : fusions) {
    const auto at = name.find(fused);
    if (at == std::string_view::npos) continue;
    std::string first_name(name);
    first_name.replace(at, fused.size(), first);
    const parameter* p = find(first_name);
    if (p == nullptr) continue;
    placement result{p->offset, local_shape(*p)};
    for (std::size_t i = 1; i < parts; ++i)
      result.shape[0] += p[i].rows();
    return result;
  }
  return fail(errc::not_found, "this model has no parameter '{}'", name);
}

element_range catalogue::shard(std::int32_t bucket_index, std::int32_t rank) const {
  const bucket& whole = buckets[static_cast<std::size_t>(bucket_index)];
  const std::int64_t share = whole.size / place.ranks;
  return {whole.begin + rank * share, whole.begin + (rank + 1) * share};
}

base::hash128 catalogue::layout_hash() const {
  base::hasher hash;
  const auto number = [&](std::int64_t value) { hash.add(static_cast<std::uint64_t>(value)); };
  hash.add(torch_name(dtype));
  number(place.ranks);
  number(place.tensor_rank);
  number(place.tensor_size);
  number(elements);
  for (const auto& b : buckets) {
    hash.add(b.name);
    for (const std::int64_t value : {b.begin, b.size, b.used})
      number(value);
  }
  for (const auto& p : parameters) {
    hash.add(p.name);
    number(static_cast<std::int64_t>(p.shape.size()));
    for (const std::int64_t extent : p.shape)
      number(extent);
    number(static_cast<std::int64_t>(p.part));
    for (const std::int64_t value :
         {std::int64_t{p.bucket}, p.offset, p.row_begin, p.row_end, p.column_begin, p.column_end})
      number(value);
  }
  return hash.digest();
}

}  // namespace quern::policy
