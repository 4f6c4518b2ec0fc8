// Checkpoints: what was saved comes back bit for bit, training goes on as if nothing had happened,
// transformers reads the export.
#include "policy/engine/checkpoint.hpp"

#include <cstdlib>
#include <filesystem>

#include "base/file.hpp"
#include "policy/engine/evaluate.hpp"
#include "policy/engine/generator.hpp"
#include "policy/engine/small_models.hpp"
#include "support/test.hpp"
#include "support/transformers.hpp"

using namespace quern;
using namespace quern::policy;
using quern::test::small_config;
using quern::test::some_tokens;

namespace {

std::vector<training_sequence> text() {
  std::vector<training_sequence> batch;
  for (std::uint32_t i = 0; i < 3; ++i) {
    training_sequence s;
    s.tokens = some_tokens(20, i);
    s.loss_mask.assign(20, 1);
    s.loss_mask[0] = 0;
    batch.push_back(std::move(s));
  }
  return batch;
}

trainer make_trainer(const parameter_arena& arena) {
  trainer_options options;
  options.loss = preset_defaults(preset::sft);
  options.optimizer.learning_rate = 0.01;
  return std::move(trainer::make(arena, options)).value();
}

}  // namespace

TEST_CASE("a model directory brings the same weights back, for each architecture, tied or not") {
  for (architecture arch : {architecture::qwen2, architecture::qwen3, architecture::llama})
    for (const bool tied : {false, true}) {
      const auto folder = base::temp_folder::make().value();
      const parameter_arena arena = parameter_arena::random(small_config(arch, tied), 5).value();
      REQUIRE(save_model(arena, folder.path() / "model"));
      const auto back = parameter_arena::load(folder.path() / "model");
      REQUIRE_MESSAGE(back, (back ? "" : back.error().message));
      CHECK(back->config == arena.config);
      CHECK(back->hash() == arena.hash());
      CHECK(back->flat.equal(arena.flat));
    }
}

TEST_CASE("the copy for files holds what is stored, and both ways to a file give the same bytes") {
  for (const weight_dtype stored : {weight_dtype::f32, weight_dtype::bf16, weight_dtype::f16}) {
    model_config config = small_config(architecture::qwen2);
    config.dtype = stored;
    CAPTURE(torch_name(stored));
    const parameter_arena arena = parameter_arena::random(config, 5).value();
    parameter_arena copy = for_files(arena);
    CHECK(copy.flat.nbytes() == static_cast<std::size_t>(arena.flat.numel()) * size_of(stored));
    const auto folder = base::temp_folder::make().value();
    REQUIRE(save_model(arena, folder.path() / "one"));
    REQUIRE(save_model(copy, folder.path() / "two"));
    const auto bytes_in = [&](const char* name) {
      return base::read_file(folder.path() / name / "model.safetensors").value();
    };
    CHECK(bytes_in("one") == bytes_in("two"));
    // By the library's own conversion, which is checked against torch's.
    const at::Tensor floats = arena.flat;
    REQUIRE(save_weights(folder.path() / "three", arena.layout,
                         {static_cast<const std::byte*>(floats.const_data_ptr()), floats.nbytes()},
                         stored));
    CHECK(bytes_in("one") == bytes_in("three"));
    // A copy: what is trained on meanwhile is not in it.
    const at::Tensor before = copy.flat.clone();
    arena.flat.add_(1);
    CHECK(copy.flat.equal(before));
  }
}

TEST_CASE("equal seeds give equal weights, and float64 arenas hold the float32 values") {
  const model_config config = small_config(architecture::qwen2);
  const parameter_arena a = parameter_arena::random(config, 5).value(),
                        b = parameter_arena::random(config, 5).value(),
                        c = parameter_arena::random(config, 6).value(),
                        d = parameter_arena::random(config, 5, at::kDouble).value();
  CHECK(a.hash() == b.hash());
  CHECK(a.hash() != c.hash());
  CHECK(d.hash() == a.hash());
  CHECK(a.view("model.norm.weight").equal(a.view("model.norm.weight").new_ones({20})));
  CHECK(a.view("model.layers.0.self_attn.q_proj.bias").abs().sum().item<float>() == 0);
  const double deviation = a.view("model.embed_tokens.weight").std().item<double>();
  CHECK(deviation > 0.28);
  CHECK(deviation < 0.32);
  CHECK_FALSE(a.view("model.nothing").defined());
  CHECK_FALSE(parameter_arena::zeros(config, at::kHalf));
}

TEST_CASE("a trainer that was saved goes on to the same bits") {
  const auto folder = base::temp_folder::make().value();
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3, true), 5).value();
  trainer learner = make_trainer(arena);
  for (int i = 0; i < 3; ++i)
    REQUIRE(learner.step(text()));
  REQUIRE(save_model(learner.weights(), folder.path()));
  REQUIRE(save_optimizer(learner.optimizer(), folder.path() / "optimizer.safetensors"));
  for (int i = 0; i < 2; ++i)
    REQUIRE(learner.step(text()));

  const parameter_arena loaded = parameter_arena::load(folder.path()).value();
  trainer resumed = make_trainer(loaded);
  REQUIRE(load_optimizer(resumed.optimizer(), folder.path() / "optimizer.safetensors"));
  CHECK(resumed.optimizer().steps == 3);
  for (int i = 0; i < 2; ++i)
    REQUIRE(resumed.step(text()));
  CHECK(resumed.weights().flat.equal(learner.weights().flat));

  trainer other =
      make_trainer(parameter_arena::random(small_config(architecture::qwen2), 5).value());
  CHECK_FALSE(load_optimizer(other.optimizer(), folder.path() / "optimizer.safetensors"));
  const auto not_optimizer =
      load_optimizer(resumed.optimizer(), folder.path() / "model.safetensors");
  REQUIRE_FALSE(not_optimizer);
  CHECK(not_optimizer.error().message.find("step count") != std::string::npos);
}

TEST_CASE("the trainer's small state survives as JSON") {
  trainer_state state;
  state.version = 12;
  state.optimizer_steps = 11;
  state.weights_hash = "00112233445566778899aabbccddeeff";
  state.rewards.add(0.1, 100);
  state.rewards.add(1.0 / 3, 2);
  const auto back = trainer_state_from_json(base::parse_json(base::dump(to_json(state))).value());
  REQUIRE(back);
  CHECK(back->version == 12);
  CHECK(back->optimizer_steps == 11);
  CHECK(back->weights_hash == state.weights_hash);
  CHECK(back->rewards == state.rewards);
  base::json newer = to_json(state);
  newer["format"] = 2;
  CHECK(trainer_state_from_json(newer).error().code == base::errc::version);
}

TEST_CASE("weights that are no numbers are no model") {
  const auto folder = base::temp_folder::make().value();
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 5).value();
  arena.view("model.norm.weight").mutable_data_ptr<float>()[1] = std::nanf("");
  REQUIRE(save_model(arena, folder.path() / "model"));
  const auto back = parameter_arena::load(folder.path() / "model");
  REQUIRE_FALSE(back);
  CHECK(back.error().message.find("model.norm.weight") != std::string::npos);
}

TEST_CASE("transformers loads an exported directory and agrees on its greedy tokens") {
  const auto found = test::python_with_transformers();
  if (!found) return test::skip("no transformers: run tools/setup.sh --python");
  const auto& python = *found;
  for (architecture arch : {architecture::qwen2, architecture::qwen3, architecture::llama}) {
    const auto folder = base::temp_folder::make().value();
    model_config config = small_config(arch, arch == architecture::qwen3);
    config.hidden_size = 24;  // transformers wants a multiple of the heads for Llama
    const parameter_arena arena = parameter_arena::random(config, 5).value();
    REQUIRE(save_model(arena, folder.path()));
    generator engine = std::move(generator::make(arena, 0)).value();
    generation_request r;
    r.prompt = some_tokens(12, 3);
    r.max_tokens = 16;
    r.greedy = r.ignore_eos = true;
    REQUIRE(engine.submit({&r, 1}));
    const generation_result result = engine.run().at(0);
    training_sequence all;
    all.tokens = r.prompt;
    all.tokens.insert(all.tokens.end(), result.tokens.begin(), result.tokens.end());
    all.loss_mask.assign(all.tokens.size(), 1);
    all.loss_mask[0] = 0;
    decoder model = std::move(decoder::make(arena)).value();
    std::vector<float> log_probs = token_log_probs(model, arena.weights, {&all, 1}).value()[0];
    log_probs.erase(log_probs.begin());
    base::json expected;
    expected["prompts"][0] = all.tokens;
    expected["log_probs"][0] = log_probs;
    expected["greedy"][0] = {{"prompt", r.prompt}, {"tokens", result.tokens}};
    REQUIRE(base::write_file_atomic(folder.path() / "expected.json", base::dump(expected)));
    const std::string command = python.string() + " " +
                                (test::source_dir() / "tools/goldens/check_export.py").string() +
                                " " + folder.path().string();
    CHECK(std::system(command.c_str()) == 0);
  }
}
