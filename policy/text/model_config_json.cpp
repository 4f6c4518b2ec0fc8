// config.json and generation_config.json: reading both generations of keys, refusing what the
// engine does not compute, and writing.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "policy/text/model_config.hpp"

namespace quern::policy {

namespace {

using base::errc;
using base::expected;
using base::fail;
using base::json;

constexpr std::size_t max_config_bytes = 1U << 20U;

/// Null where the key is absent: Hugging Face writes null and leaving out for the same thing.
const json& value_of(const json& object, std::string_view key) {
  static const json none;
  const auto found = object.find(std::string(key));
  return found == object.end() ? none : *found;
}

template <class T>
expected<T> optional_value(const json& object, std::string_view key, T fallback) {
  if (value_of(object, key).is_null()) return fallback;
  return base::get<T>(object, key);
}

/// Keys that say nothing about what the model computes, beside those that are read below.
constexpr std::array<std::string_view, 45> known_keys{
    // read
    "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings",
    "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters", "tie_word_embeddings",
    "initializer_range", "dtype", "torch_dtype", "bos_token_id", "eos_token_id", "pad_token_id",
    // checked to be what the engine computes
    "hidden_act", "attention_bias", "attention_dropout", "mlp_bias", "pretraining_tp",
    "use_sliding_window", "layer_types", "partial_rotary_factor",
    // mean nothing here
    "architectures", "transformers_version", "use_cache", "sliding_window", "max_window_layers",
    "_name_or_path", "name_or_path", "output_attentions", "output_hidden_states", "return_dict",
    "id2label", "label2id", "problem_type", "chunk_size_feed_forward", "is_encoder_decoder",
    "rope_interleaved", "_from_model_config"};

bool is_off(const json& value) {
  return value.is_null() || value == false ||
         ((value.is_object() || value.is_array()) && value.empty());
}

base::status refuse_unknown(const json& config) {
  for (const auto& [key, value] : config.items()) {
    const bool known = std::find(known_keys.begin(), known_keys.end(), key) != known_keys.end();
    if (!known && !is_off(value))
      return fail(
          errc::invalid_argument,
          "'{}' is {}, which this engine does not know{}; if it changes nothing that the model "
          "computes, remove the key",
          key, base::dump(value).substr(0, 80), base::did_you_mean(key, known_keys));
  }
  return {};
}

/// `key` must be absent, null or `wanted`.
base::status require(const json& config, std::string_view key, const json& wanted) {
  const json& value = value_of(config, key);
  if (!value.is_null() && value != wanted)
    return fail(errc::invalid_argument, "'{}' is {}; this engine computes only {}", key,
                base::dump(value).substr(0, 80), base::dump(wanted));
  return {};
}

base::status refuse_unsupported(const json& config) {
  QUERN_CHECK(require(config, "hidden_act", "silu"));
  QUERN_CHECK(require(config, "attention_dropout", 0));
  QUERN_CHECK(require(config, "mlp_bias", false));
  QUERN_CHECK(require(config, "pretraining_tp", 1));
  QUERN_CHECK(require(config, "use_sliding_window", false));
  QUERN_CHECK(require(config, "partial_rotary_factor", 1));
  QUERN_CHECK(require(config, "rope_interleaved", false));
  QUERN_CHECK(require(config, "is_encoder_decoder", false));
  const json& layers = value_of(config, "layer_types");
  if (!layers.is_null() && !layers.is_array())
    return fail(errc::invalid_argument, "'layer_types' must be a list");
  for (const json& layer : layers)
    if (layer != "full_attention")
      return fail(errc::invalid_argument,
                  "'layer_types' names {}; this engine computes only full_attention",
                  base::dump(layer).substr(0, 80));
  return {};
}

/// Biases are part of the family here: Qwen2 always has them on q, k and v, the others never.
base::status check_bias(const json& config, architecture arch) {
  if (arch == architecture::qwen2) return require(config, "attention_bias", true);
  return require(config, "attention_bias", false);
}

expected<architecture> read_architecture(const json& config) {
  QUERN_TRY(const auto type, base::get<std::string>(config, "model_type"));
  for (const auto arch : {architecture::qwen2, architecture::qwen3, architecture::llama})
    if (type == model_type(arch)) return arch;
  return fail(errc::invalid_argument,
              "model_type is '{}'; this engine runs qwen2 (and 2.5), qwen3 and llama (3)", type);
}

expected<weight_dtype> read_dtype(const json& config) {
  const char* key = value_of(config, "dtype").is_null() ? "torch_dtype" : "dtype";
  QUERN_TRY(const auto name, optional_value<std::string>(config, key, "float32"));
  if (const auto dtype = dtype_from_torch(name)) return *dtype;
  return fail(errc::invalid_argument, "'{}' is '{}'; float32, bfloat16 and float16 are known", key,
              name);
}

/// One value wherever it may stand; where both generations of keys are there they must agree.
expected<double> read_theta(const json& config, const json& rope) {
  const bool in_new = !value_of(rope, "rope_theta").is_null();
  const bool in_old = !value_of(config, "rope_theta").is_null();
  if (!in_new && !in_old)
    return fail(
        errc::invalid_argument,
        "neither 'rope_parameters.rope_theta' nor 'rope_theta' is there; add the value that the "
        "model was trained with");
  QUERN_TRY(const double value, base::get<double>(in_new ? rope : config, "rope_theta"));
  if (in_new && in_old) {
    QUERN_TRY(const double old_value, base::get<double>(config, "rope_theta"));
    if (old_value != value)
      return fail(errc::invalid_argument,
                  "'rope_parameters.rope_theta' is {} but 'rope_theta' is {}; remove the wrong one",
                  value, old_value);
  }
  return value;
}

expected<std::optional<llama3_rope>> read_scaling(const json& rope) {
  if (rope.is_null()) return std::nullopt;
  const char* key = value_of(rope, "rope_type").is_null() ? "type" : "rope_type";
  QUERN_TRY(const auto type, optional_value<std::string>(rope, key, "default"));
  if (type == "default") return std::nullopt;
  if (type != "llama3")
    return fail(errc::invalid_argument,
                "rope type '{}' is not computed here; default and llama3 are", type);
  llama3_rope result;
  QUERN_TRY(result.factor, base::get<double>(rope, "factor"));
  QUERN_TRY(result.low_freq_factor, base::get<double>(rope, "low_freq_factor"));
  QUERN_TRY(result.high_freq_factor, base::get<double>(rope, "high_freq_factor"));
  QUERN_TRY(result.original_max_positions,
            base::get<std::int64_t>(rope, "original_max_position_embeddings"));
  return result;
}

base::status read_rope(const json& config, model_config& out) {
  const json& rope = value_of(config, "rope_parameters");
  const json& old = value_of(config, "rope_scaling");
  for (const auto& [key, value] : {std::pair{"rope_parameters", &rope}, {"rope_scaling", &old}})
    if (!value->is_null() && !value->is_object())
      return fail(errc::invalid_argument, "'{}' must be an object", key);
  QUERN_CHECK(require(rope.is_null() ? json::object() : rope, "partial_rotary_factor", 1));
  QUERN_TRY(out.rope_theta, read_theta(config, rope.is_null() ? json::object() : rope));
  QUERN_TRY(out.rope_scaling, read_scaling(rope.is_null() ? old : rope));
  if (!rope.is_null() && !old.is_null()) {
    QUERN_TRY(const auto old_scaling, read_scaling(old));
    if (old_scaling != out.rope_scaling)
      return fail(
          errc::invalid_argument,
          "'rope_parameters' and 'rope_scaling' say different things; remove the wrong one");
  }
  return {};
}

expected<std::vector<std::int32_t>> read_tokens(const json& object, std::string_view key) {
  std::vector<std::int32_t> tokens;
  const json& value = value_of(object, key);
  if (value.is_null()) return tokens;
  const json list = value.is_array() ? value : json::array({value});
  for (const json& item : list) {
    if (!item.is_number_integer() || item < 0 || item > INT32_MAX)
      return fail(errc::invalid_argument, "'{}' must be a token id or a list of them, found {}",
                  key, base::dump(item).substr(0, 80));
    tokens.push_back(item.get<std::int32_t>());
  }
  return tokens;
}

expected<std::optional<std::int32_t>> read_token(const json& config, const json& generation,
                                                 std::string_view key) {
  for (const json* object : {&config, &generation}) {
    if (!object->is_object()) continue;
    QUERN_TRY(const auto tokens, read_tokens(*object, key));
    if (tokens.size() > 1)
      return fail(errc::invalid_argument, "'{}' has {} ids; one is allowed", key, tokens.size());
    if (!tokens.empty()) return tokens.front();
  }
  return std::nullopt;
}

base::status read_special_tokens(const json& config, const json& generation, model_config& out) {
  QUERN_TRY(out.bos_token, read_token(config, generation, "bos_token_id"));
  QUERN_TRY(out.pad_token, read_token(config, generation, "pad_token_id"));
  if (generation.is_object()) {
    QUERN_TRY(out.eos_tokens, read_tokens(generation, "eos_token_id"));
  }
  if (out.eos_tokens.empty()) {
    QUERN_TRY(out.eos_tokens, read_tokens(config, "eos_token_id"));
  }
  return {};
}

base::status read_sizes(const json& config, model_config& out) {
  using i64 = std::int64_t;
  QUERN_TRY(out.vocab_size, base::get<i64>(config, "vocab_size"));
  QUERN_TRY(out.hidden_size, base::get<i64>(config, "hidden_size"));
  QUERN_TRY(out.intermediate_size, base::get<i64>(config, "intermediate_size"));
  QUERN_TRY(out.layers, base::get<i64>(config, "num_hidden_layers"));
  QUERN_TRY(out.heads, base::get<i64>(config, "num_attention_heads"));
  QUERN_TRY(out.kv_heads, optional_value<i64>(config, "num_key_value_heads", out.heads));
  QUERN_TRY(out.max_positions, base::get<i64>(config, "max_position_embeddings"));
  if (!value_of(config, "head_dim").is_null()) {
    QUERN_TRY(out.head_dim, base::get<i64>(config, "head_dim"));
    return {};
  }
  // Qwen3's own default is 128, whatever hidden_size is.
  if (out.arch == architecture::qwen3) {
    out.head_dim = 128;
    return {};
  }
  if (out.heads < 1 || out.hidden_size % out.heads != 0)
    return fail(errc::invalid_argument,
                "hidden_size is {}, no multiple of num_attention_heads, which is {}; name head_dim",
                out.hidden_size, out.heads);
  out.head_dim = out.hidden_size / out.heads;
  return {};
}

}  // namespace

expected<model_config> parse_model_config(const json& config, const json& generation) {
  if (!config.is_object()) return fail(errc::invalid_argument, "config.json must hold an object");
  model_config out;
  QUERN_TRY(out.arch, read_architecture(config));
  QUERN_CHECK(refuse_unknown(config));
  QUERN_CHECK(refuse_unsupported(config));
  QUERN_CHECK(check_bias(config, out.arch));
  QUERN_CHECK(read_sizes(config, out));
  QUERN_TRY(out.rms_norm_eps, optional_value<double>(config, "rms_norm_eps", 1e-6));
  QUERN_TRY(out.tied_embeddings, optional_value<bool>(config, "tie_word_embeddings", false));
  QUERN_TRY(out.initializer_range, optional_value<double>(config, "initializer_range", 0.02));
  QUERN_TRY(out.dtype, read_dtype(config));
  QUERN_CHECK(read_rope(config, out));
  QUERN_CHECK(read_special_tokens(config, generation, out));
  QUERN_CHECK(validate(out));
  return out;
}

expected<model_config> load_model_config(const std::filesystem::path& dir) {
  QUERN_TRY(const auto text, base::read_file(dir / "config.json", max_config_bytes));
  auto config = base::parse_json(text);
  if (!config) return base::in_context((dir / "config.json").string(), config.error());
  json generation;
  const auto generation_file = dir / "generation_config.json";
  if (std::filesystem::exists(generation_file)) {
    QUERN_TRY(const auto more, base::read_file(generation_file, max_config_bytes));
    auto parsed = base::parse_json(more);
    if (!parsed) return base::in_context(generation_file.string(), parsed.error());
    generation = std::move(*parsed);
  }
  auto result = parse_model_config(*config, generation);
  if (!result) return base::in_context((dir / "config.json").string(), result.error());
  return result;
}

}  // namespace quern::policy
