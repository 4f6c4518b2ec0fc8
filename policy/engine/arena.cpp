// Making, filling and hashing parameter arenas.
#include "policy/engine/arena.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include "base/random.hpp"
#include "policy/engine/arena_hash.hpp"
#include "policy/weights/model_dir.hpp"
#include "policy/weights/safetensors.hpp"
#include "policy/weights/weight_hash.hpp"

namespace quern::policy {
namespace {

at::Tensor view_of(const catalogue& layout, const at::Tensor& flat, std::string_view name) {
  const auto place = layout.place_of(name);
  if (!place) return {};
  std::int64_t count = 1;
  for (std::int64_t size : place->shape)
    count *= size;
  return flat.narrow(0, place->offset, count).view(place->shape);
}

model_weights bind(const model_config& config, const catalogue& layout, const at::Tensor& flat) {
  model_weights weights;
  weights.embedding = view_of(layout, flat, "model.embed_tokens.weight");
  weights.final_norm = view_of(layout, flat, "model.norm.weight");
  weights.head =
      config.tied_embeddings ? weights.embedding : view_of(layout, flat, "lm_head.weight");
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const auto get = [&](std::string_view name) {
      return view_of(layout, flat, fmt::format("model.layers.{}.{}", i, name));
    };
    block_weights block;
    block.attention_norm = get("input_layernorm.weight");
    block.qkv = get("self_attn.qkv_proj.weight");
    if (config.qkv_bias()) block.qkv_bias = get("self_attn.qkv_proj.bias");
    if (config.qk_norm()) {
      block.q_norm = get("self_attn.q_norm.weight");
      block.k_norm = get("self_attn.k_norm.weight");
    }
    block.out = get("self_attn.o_proj.weight");
    block.mlp_norm = get("post_attention_layernorm.weight");
    block.gate_up = get("mlp.gate_up_proj.weight");
    block.down = get("mlp.down_proj.weight");
    weights.blocks.push_back(std::move(block));
  }
  return weights;
}

std::span<std::byte> bytes_of(const at::Tensor& floats) {
  return {static_cast<std::byte*>(floats.mutable_data_ptr()),
          static_cast<std::size_t>(floats.numel()) * sizeof(float)};
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.ends_with(end);
}

void fill_random(const parameter& p, const model_config& config, std::uint64_t seed,
                 double* values) {
  if (p.shape.size() == 1) {
    if (ends_with(p.name, "norm.weight")) std::fill(values, values + p.count(), 1.0);
    return;
  }
  double deviation = config.initializer_range;
  if (ends_with(p.name, "o_proj.weight") || ends_with(p.name, "down_proj.weight"))
    deviation /= std::sqrt(2.0 * static_cast<double>(config.layers));
  const base::hash128 name = base::xxh128(p.name);
  base::random_stream stream(seed, "policy/initial_weights", {name.high, name.low});
  for (std::int64_t i = 0; i < p.count(); ++i)
    values[i] = deviation * stream.normal();
}

}  // namespace

at::Tensor host_floats(const at::Tensor& flat) {
  return flat.to(at::kCPU, at::kFloat).contiguous();
}

base::expected<parameter_arena> parameter_arena::zeros(const model_config& config,
                                                       at::ScalarType type, at::Device device,
                                                       const policy::layout& place) {
  if (type != at::kFloat && type != at::kDouble && type != at::kBFloat16)
    return base::fail(base::errc::invalid_argument,
                      "arenas are float32, float64 or bfloat16, not {}", at::toString(type));
  QUERN_CHECK(validate(config));
  parameter_arena arena;
  arena.config = config;
  QUERN_TRY(arena.layout, make_catalogue(config, weight_dtype::f32, place));
  try {
    arena.flat = at::zeros({arena.layout.elements}, at::TensorOptions().dtype(type).device(device));
    arena.weights = bind(config, arena.layout, arena.flat);
  } catch (const std::exception& e) {
    return base::fail(base::errc::exhausted, "cannot allocate {} weights on {}: {}",
                      arena.layout.elements, device.str(), e.what());
  }
  return arena;
}

base::expected<parameter_arena> parameter_arena::random(const model_config& config,
                                                        std::uint64_t seed, at::ScalarType type,
                                                        at::Device device,
                                                        const policy::layout& place) {
  QUERN_TRY(parameter_arena arena, zeros(config, type, device, place));
  for (const parameter& p : arena.layout.parameters) {
    at::Tensor values = at::zeros({p.count()}, at::kDouble);
    fill_random(p, config, seed, values.mutable_data_ptr<double>());
    // Through float32, so that a float64 arena of the same seed holds the same weights.
    arena.flat.narrow(0, p.offset, p.count()).copy_(values.to(at::kFloat));
  }
  return arena;
}

base::expected<parameter_arena> parameter_arena::load(const std::filesystem::path& dir,
                                                      at::ScalarType type, at::Device device,
                                                      const policy::layout& place) {
  QUERN_TRY(model_config config, load_model_config(dir));
  QUERN_TRY(parameter_arena arena, zeros(config, type, device, place));
  QUERN_TRY(safetensors_reader file, safetensors_reader::open_dir(dir));
  QUERN_CHECK(check_weights(file, arena.layout));
  // Tensor by tensor: several ranks of a host may load at once.
  for (const parameter& p : arena.layout.parameters) {
    const at::Tensor floats = at::empty({p.count()}, at::kFloat);
    QUERN_CHECK(load_parameter(file, p, weight_dtype::f32, bytes_of(floats)));
    const float* values = floats.const_data_ptr<float>();
    if (!std::all_of(values, values + p.count(), [](float v) { return std::isfinite(v); }))
      return base::fail(base::errc::corrupt,
                        "{}: tensor {} holds an infinity or NaN: take an earlier checkpoint",
                        dir.string(), p.name);
    arena.flat.narrow(0, p.offset, p.count()).copy_(floats);
  }
  return arena;
}

parameter_arena parameter_arena::like() const {
  parameter_arena other;
  other.config = config;
  other.layout = layout;
  other.flat = at::zeros({layout.elements}, flat.options());
  other.weights = bind(config, layout, other.flat);
  return other;
}

parameter_arena parameter_arena::empty_as(at::ScalarType type, at::Device device) const {
  parameter_arena other;
  other.config = config;
  other.layout = layout;
  other.flat = at::zeros({layout.elements}, at::TensorOptions().dtype(type).device(device));
  other.weights = bind(config, layout, other.flat);
  return other;
}

void parameter_arena::fill_with_noise(double deviation) {
  flat.normal_(0, deviation);
}

at::Tensor parameter_arena::view(std::string_view name) const {
  return view_of(layout, flat, name);
}

base::hash128 parameter_arena::hash() const {
  if (const auto there = hash_on_device(layout, flat)) return *there;
  const at::Tensor floats = host_floats(flat);
  return weights_hash(layout, bytes_of(floats));
}

}  // namespace quern::policy
