// config.json of the three families: golden files in both generations of keys, and what is refused.
#include "policy/text/model_config.hpp"

#include <random>

#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern::policy;
namespace base = quern::base;
using base::json;

namespace {

const std::filesystem::path models = quern::test::source_dir() / "tests/golden/policy/models";

model_config golden_config(const char* name) {
  const auto config = load_model_config(models / name);
  REQUIRE_MESSAGE(config, (config ? "" : config.error().message));
  return *config;
}

json valid() {
  return {{"model_type", "llama"},    {"vocab_size", 300},
          {"hidden_size", 32},        {"intermediate_size", 64},
          {"num_hidden_layers", 2},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"max_position_embeddings", 128},
          {"rope_theta", 10000.0}};
}

std::string problem(const json& config, const json& generation = nullptr) {
  const auto parsed = parse_model_config(config, generation);
  return parsed ? "" : parsed.error().message;
}

std::string problem_with(const char* key, const json& value) {
  auto config = valid();
  config[key] = value;
  return problem(config);
}

}  // namespace

TEST_CASE("golden configurations are read") {
  const auto tied = golden_config("qwen2_tied");
  CHECK(tied.arch == architecture::qwen2);
  CHECK(tied.tied_embeddings);
  CHECK(tied.head_dim == 8);
  CHECK(tied.qkv_bias());
  CHECK(tied.rope_theta == 1e6);

  const auto old = golden_config("qwen2_old_keys");
  CHECK_FALSE(old.tied_embeddings);
  CHECK(old.rope_theta == 1e4);
  CHECK(old.rms_norm_eps == 1e-5);

  const auto wide = golden_config("qwen3_wide_heads");
  CHECK(wide.head_dim == 24);
  CHECK(wide.q_size() == 96);
  CHECK(wide.kv_size() == 48);
  CHECK(wide.qk_norm());
  CHECK(wide.eos_tokens == std::vector<std::int32_t>{2, 3});

  CHECK(golden_config("qwen3_old_keys").rope_theta == 5000.0);
  CHECK(golden_config("qwen3_bfloat16").dtype == weight_dtype::bf16);

  const auto llama = golden_config("llama3_old_keys");
  REQUIRE(llama.rope_scaling);
  CHECK(llama.rope_scaling->factor == 8.0);
  CHECK(llama.rope_scaling->original_max_positions == 32);
  CHECK(llama.rope_theta == 1e4);
  CHECK(llama.head_dim == 8);
  CHECK(llama.eos_tokens == std::vector<std::int32_t>{2, 5, 7});  // generation_config.json counts
  CHECK(llama.bos_token == 1);
  CHECK(golden_config("llama3_sharded").rope_theta == 5e5);
}

TEST_CASE("parameters are counted as transformers counts them") {
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    const auto text = base::read_file(entry.path() / "expected.json");
    REQUIRE(text);
    const auto expected = base::parse_json(*text);
    REQUIRE(expected);
    const auto config = load_model_config(entry.path());
    REQUIRE(config);
    CHECK(parameter_count(*config) == (*expected)["parameters"].get<std::int64_t>());
  }
}

TEST_CASE("what is written is read again, all of it") {
  const auto folder = base::temp_folder::make();
  REQUIRE(folder);
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    const auto config = load_model_config(entry.path());
    REQUIRE(config);
    REQUIRE(save_model_config(*config, folder->path()));
    const auto again = load_model_config(folder->path());
    REQUIRE_MESSAGE(again, (again ? "" : again.error().message));
    CHECK(*again == *config);
    // Present and null where the family has such a key; with another value it would be refused.
    const auto written = base::parse_json(*base::read_file(folder->path() / "config.json"));
    const bool qwen = config->arch != architecture::llama;
    CHECK(written->contains("sliding_window") == qwen);
    if (qwen) CHECK((*written)["sliding_window"].is_null());
  }
}

TEST_CASE("features that are not computed are refused by name") {
  CHECK(problem(valid()).empty());
  const auto names = [](const std::string& text, const char* part) {
    CAPTURE(text);
    CAPTURE(part);
    return text.find(part) != std::string::npos;
  };
  CHECK(names(problem_with("model_type", "mistral"), "mistral"));
  CHECK(names(problem_with("hidden_act", "gelu"), "hidden_act"));
  CHECK(names(problem_with("use_sliding_window", true), "use_sliding_window"));
  CHECK(names(problem_with("layer_types", json::array({"full_attention", "sliding_attention"})),
              "sliding_attention"));
  CHECK(names(problem_with("attention_bias", true), "attention_bias"));
  CHECK(names(problem_with("mlp_bias", true), "mlp_bias"));
  CHECK(names(problem_with("attention_dropout", 0.1), "attention_dropout"));
  CHECK(names(problem_with("quantization_config", json{{"bits", 4}}), "quantization_config"));
  CHECK(names(problem_with("num_experts", 8), "num_experts"));
  CHECK(names(problem_with("hiden_size", 8), "did you mean 'hidden_size'"));
  CHECK(names(problem_with("rope_scaling", json{{"rope_type", "yarn"}, {"factor", 4.0}}), "yarn"));
  CHECK(names(problem_with("rope_scaling", json{{"type", "linear"}, {"factor", 4.0}}), "linear"));
  CHECK(names(problem_with("rope_scaling", json{{"rope_type", "llama3"}}), "factor"));
  CHECK(names(problem_with("rope_parameters", json{{"rope_theta", 5.0}}), "'rope_theta' is 10000"));
  CHECK(names(problem_with("partial_rotary_factor", 0.5), "partial_rotary_factor"));
  CHECK(names(problem_with("dtype", "int8"), "int8"));
  // Off is as good as absent.
  CHECK(problem_with("use_qk_norm", false).empty());
  CHECK(problem_with("quantization_config", nullptr).empty());
  auto qwen = valid();
  qwen["model_type"] = "qwen2";
  qwen["attention_bias"] = false;
  CHECK(names(problem(qwen), "attention_bias"));
}

TEST_CASE("values that cannot be are refused with value and limit") {
  const auto names = [](const std::string& text, const char* part) {
    CAPTURE(text);
    CAPTURE(part);
    return text.find(part) != std::string::npos;
  };
  auto config = valid();
  config.erase("rope_theta");
  CHECK(names(problem(config), "rope_theta"));
  CHECK(names(problem_with("vocab_size", 0), "vocab_size is 0"));
  CHECK(names(problem_with("vocab_size", "many"), "vocab_size"));
  CHECK(names(problem_with("num_key_value_heads", 3), "num_attention_heads is 4"));
  CHECK(names(problem_with("head_dim", 7), "head_dim is 7"));
  CHECK(names(problem_with("num_attention_heads", 5), "name head_dim"));
  CHECK(names(problem_with("eos_token_id", 300), "eos_token_id is 300"));
  CHECK(names(problem_with("eos_token_id", json::array({1, -1})), "eos_token_id"));
  CHECK(names(problem_with("bos_token_id", json::array({1, 2})), "bos_token_id"));
  CHECK(names(problem_with("rms_norm_eps", 0), "rms_norm_eps"));
  CHECK(names(problem(json::array()), "object"));
  CHECK_FALSE(load_model_config(models));
}

TEST_CASE("defaults are those of transformers") {
  auto config = valid();
  config.erase("num_key_value_heads");
  const auto parsed = parse_model_config(config, nullptr);
  REQUIRE(parsed);
  CHECK(parsed->kv_heads == 4);
  CHECK(parsed->head_dim == 8);
  CHECK_FALSE(parsed->tied_embeddings);
  CHECK(parsed->eos_tokens.empty());
  config["model_type"] = "qwen3";
  CHECK(parse_model_config(config, nullptr)->head_dim == 128);
}

TEST_CASE("whatever stands in the file, the answer is an error or a valid configuration") {
  const json values[] = {nullptr,
                         true,
                         -1,
                         0,
                         1,
                         7,
                         1e300,
                         18446744073709551615ULL,
                         2.5,
                         "",
                         "x",
                         json::array(),
                         json::array({1, "a"}),
                         json::object(),
                         json{{"rope_type", 3}},
                         json{{"rope_theta", "x"}},
                         json{{"type", "llama3"}, {"factor", -1}}};
  const char* keys[] = {"model_type",
                        "vocab_size",
                        "hidden_size",
                        "num_hidden_layers",
                        "head_dim",
                        "num_attention_heads",
                        "num_key_value_heads",
                        "rope_theta",
                        "rope_scaling",
                        "rope_parameters",
                        "eos_token_id",
                        "bos_token_id",
                        "dtype",
                        "layer_types",
                        "rms_norm_eps",
                        "tie_word_embeddings",
                        "max_position_embeddings",
                        "other"};
  std::mt19937_64 random(11);
  int accepted = 0;
  for (int round = 0; round < 5000; ++round) {
    auto config = valid();
    json generation = nullptr;
    for (std::size_t i = random() % 3; i < 3; ++i)
      config[keys[random() % std::size(keys)]] = values[random() % std::size(values)];
    if (random() % 3 == 0)
      generation = {{keys[random() % std::size(keys)], values[random() % std::size(values)]}};
    const auto parsed = parse_model_config(config, generation);
    if (!parsed) {
      CHECK_FALSE(parsed.error().message.empty());
      continue;
    }
    ++accepted;
    CHECK(validate(*parsed));
    CHECK(*parse_model_config(config_json(*parsed), generation_config_json(*parsed)) == *parsed);
  }
  CHECK(accepted > 100);
}
