// What a Hugging Face config.json says about a policy, for the three families that Quern runs:
// Qwen2 (and 2.5), Qwen3 and Llama-3. Old (transformers 4) and new (transformers 5) keys are read;
// a feature that the engine does not compute is refused by name, never ignored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/status.hpp"
#include "policy/weights/dtype.hpp"

namespace quern::policy {

enum class architecture : std::uint8_t { qwen2, qwen3, llama };

/// "qwen2", "qwen3", "llama": the `model_type` of config.json.
std::string_view model_type(architecture arch);

/// The frequency scaling that Llama 3.1 introduced (rope_type "llama3"). With wavelength
/// w = 2 pi / f of a rotary frequency f and L = original_max_positions:
///   w < L / high_freq_factor: f stays;  w > L / low_freq_factor: f / factor;
///   between: (1 - s) f / factor + s f with s = (L / w - low) / (high - low).
struct llama3_rope {
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_max_positions = 8192;

  bool operator==(const llama3_rope&) const = default;
};

/// A decoder-only transformer: embedding, `layers` pre-norm blocks (grouped-query attention with
/// rotary positions, SwiGLU), final RMSNorm, output projection.
struct model_config {
  architecture arch = architecture::qwen3;
  std::int64_t vocab_size = 0;         ///< rows of the embedding, padding rows included
  std::int64_t hidden_size = 0;        ///< width of the residual stream
  std::int64_t intermediate_size = 0;  ///< width of gate and up
  std::int64_t layers = 0;
  std::int64_t heads = 0;     ///< query heads
  std::int64_t kv_heads = 0;  ///< divides heads
  std::int64_t head_dim = 0;  ///< even; heads * head_dim may differ from hidden_size
  std::int64_t max_positions = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::optional<llama3_rope> rope_scaling;
  bool tied_embeddings = false;
  double initializer_range = 0.02;
  weight_dtype dtype = weight_dtype::f32;  ///< of the stored weights
  std::optional<std::int32_t> bos_token;
  std::optional<std::int32_t> pad_token;
  std::vector<std::int32_t> eos_tokens;  ///< any of them ends a completion; may be empty

  /// Biases on the q, k and v projections (never on o): Qwen2 only.
  bool qkv_bias() const { return arch == architecture::qwen2; }
  /// RMSNorm over head_dim on q and k before the rotation: Qwen3 only.
  bool qk_norm() const { return arch == architecture::qwen3; }
  std::int64_t q_size() const { return heads * head_dim; }
  std::int64_t kv_size() const { return kv_heads * head_dim; }

  bool operator==(const model_config&) const = default;
};

/// Positive sizes, kv_heads divides heads, even head_dim, token ids inside the vocabulary, finite
/// positive eps and theta, at most 2^31 - 1 rows and columns.
base::status validate(const model_config& config);

/// Number of parameters, a tied output projection counted once.
std::int64_t parameter_count(const model_config& config);

/// `config` is the text of config.json as JSON; `generation` that of generation_config.json (its
/// list of end tokens counts, since config.json holds only one), or null where there is none.
base::expected<model_config> parse_model_config(const base::json& config,
                                                const base::json& generation);

/// Reads DIR/config.json and, where it exists, DIR/generation_config.json.
base::expected<model_config> load_model_config(const std::filesystem::path& dir);

/// What transformers 5 writes and loads. transformers 4 and older servers find `rope_theta`,
/// `rope_scaling` and `torch_dtype` in the same file.
base::json config_json(const model_config& config);
base::json generation_config_json(const model_config& config);

/// Writes both files into DIR, each atomically.
base::status save_model_config(const model_config& config, const std::filesystem::path& dir);

}  // namespace quern::policy
