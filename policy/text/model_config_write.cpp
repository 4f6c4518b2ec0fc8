// Writes config.json and generation_config.json.
#include "base/file.hpp"
#include "policy/text/model_config.hpp"

namespace quern::policy {

namespace {

using base::json;

std::string_view class_name(architecture arch) {
  switch (arch) {
    case architecture::qwen2:
      return "Qwen2ForCausalLM";
    case architecture::qwen3:
      return "Qwen3ForCausalLM";
    case architecture::llama:
      break;
  }
  return "LlamaForCausalLM";
}

json rope_json(const model_config& config) {
  json rope{{"rope_type", "default"}};
  if (const auto& scaling = config.rope_scaling)
    rope = {{"rope_type", "llama3"},
            {"factor", scaling->factor},
            {"low_freq_factor", scaling->low_freq_factor},
            {"high_freq_factor", scaling->high_freq_factor},
            {"original_max_position_embeddings", scaling->original_max_positions}};
  return rope;
}

json eos_json(const model_config& config) {
  if (config.eos_tokens.empty()) return nullptr;
  if (config.eos_tokens.size() == 1) return config.eos_tokens.front();
  return config.eos_tokens;
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

}  // namespace

json config_json(const model_config& config) {
  json rope = rope_json(config);
  json out{{"architectures", json::array({class_name(config.arch)})},
           {"model_type", model_type(config.arch)},
           {"vocab_size", config.vocab_size},
           {"hidden_size", config.hidden_size},
           {"intermediate_size", config.intermediate_size},
           {"num_hidden_layers", config.layers},
           {"num_attention_heads", config.heads},
           {"num_key_value_heads", config.kv_heads},
           {"head_dim", config.head_dim},
           {"hidden_act", "silu"},
           {"max_position_embeddings", config.max_positions},
           {"initializer_range", config.initializer_range},
           {"rms_norm_eps", config.rms_norm_eps},
           {"tie_word_embeddings", config.tied_embeddings},
           {"attention_dropout", 0.0},
           {"use_cache", true},
           {"dtype", torch_name(config.dtype)},
           {"torch_dtype", torch_name(config.dtype)},
           {"rope_theta", config.rope_theta},
           {"bos_token_id", or_null(config.bos_token)},
           {"eos_token_id", eos_json(config)},
           {"pad_token_id", or_null(config.pad_token)}};
  out["rope_scaling"] = config.rope_scaling ? rope : json();
  rope["rope_theta"] = config.rope_theta;
  out["rope_parameters"] = std::move(rope);
  if (config.arch != architecture::qwen2) out["attention_bias"] = false;
  if (config.arch == architecture::llama) out["mlp_bias"] = false;
  if (config.arch != architecture::llama) {
    out["use_sliding_window"] = false;
    // Programs that look at the width alone would take the family's default, 4096.
    out["sliding_window"] = nullptr;
  }
  return out;
}

json generation_config_json(const model_config& config) {
  json out{{"eos_token_id", eos_json(config)}};
  if (config.bos_token) out["bos_token_id"] = *config.bos_token;
  if (config.pad_token) out["pad_token_id"] = *config.pad_token;
  return out;
}

base::status save_model_config(const model_config& config, const std::filesystem::path& dir) {
  QUERN_CHECK(validate(config));
  QUERN_CHECK(
      base::write_file_atomic(dir / "config.json", base::dump_pretty(config_json(config)) + "\n"));
  return base::write_file_atomic(dir / "generation_config.json",
                                 base::dump_pretty(generation_config_json(config)) + "\n");
}

}  // namespace quern::policy
