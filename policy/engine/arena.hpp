// One flat tensor that holds all parameters of a model, and views of it by role. Weights, gradients
// and optimiser moments are arenas of the same catalogue, so "the gradient of x" is the same offset
// in another arena and an optimiser step is arithmetic on flat ranges.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/hash.hpp"
#include "base/status.hpp"
#include "policy/text/model_config.hpp"
#include "policy/weights/catalogue.hpp"

namespace quern::policy {

/// Views of one decoder block; d = hidden_size, q = heads * head_dim, kv = kv_heads * head_dim, i =
/// intermediate_size.
struct block_weights {
  at::Tensor attention_norm;  ///< [d]
  at::Tensor qkv;             ///< [q + 2 kv, d], rows of q, k and v
  at::Tensor qkv_bias;        ///< [q + 2 kv], undefined where the architecture has none
  at::Tensor q_norm, k_norm;  ///< [head_dim], undefined where the architecture has none
  at::Tensor out;             ///< [d, q]
  at::Tensor mlp_norm;        ///< [d]
  at::Tensor gate_up;         ///< [2 i, d], rows of gate, then of up
  at::Tensor down;            ///< [d, i]
};

struct model_weights {
  at::Tensor embedding;   ///< [vocab, d]
  at::Tensor final_norm;  ///< [d]
  at::Tensor head;        ///< [vocab, d]; the embedding itself where they are tied
  std::vector<block_weights> blocks;
};

/// Owns the tensor; copies share it (at::Tensor semantics). `flat` never moves: graphs and views
/// stay valid for the arena's life.
struct parameter_arena {
  model_config config;
  catalogue layout;
  at::Tensor flat;        ///< [layout.elements], zero where no parameter lies
  model_weights weights;  ///< views of flat

  /// All zero. `type` is float32, bfloat16 (to generate with), or float64 in numerical tests.
  /// `place`: for how many optimiser shards the buckets are padded.
  static base::expected<parameter_arena> zeros(const model_config& config,
                                               at::ScalarType type = at::kFloat,
                                               at::Device device = at::kCPU,
                                               const policy::layout& place = {});
  /// Norms 1, biases 0, every other value normal with deviation initializer_range (for `out` and
  /// `down` divided by sqrt(2 layers)), drawn at addresses (seed, parameter name), so equal seeds
  /// give equal weights whatever the device.
  static base::expected<parameter_arena> random(const model_config& config, std::uint64_t seed,
                                                at::ScalarType type = at::kFloat,
                                                at::Device device = at::kCPU,
                                                const policy::layout& place = {});
  /// From a Hugging Face directory.
  static base::expected<parameter_arena> load(const std::filesystem::path& dir,
                                              at::ScalarType type = at::kFloat,
                                              at::Device device = at::kCPU,
                                              const policy::layout& place = {});
  /// An all-zero arena of the same catalogue, type and device (gradients, moments, staging).
  parameter_arena like() const;
  /// The same with another element type, on any device. Throws what LibTorch throws without memory.
  parameter_arena empty_as(at::ScalarType type, at::Device device) const;
  /// Normal numbers from LibTorch's own generator, in a moment: for benchmarks.
  void fill_with_noise(double deviation);
  /// The logical tensor of a Hugging Face name; an undefined tensor for an unknown name.
  at::Tensor view(std::string_view name) const;
  /// The weights hash of policy/weights/weight_hash.hpp over the float32 values: what this version
  /// is known by.
  base::hash128 hash() const;
};

/// An arena's values as float32 on the host.
at::Tensor host_floats(const at::Tensor& flat);

}  // namespace quern::policy
