// Weights between Hugging Face directories and arenas.
#include "policy/weights/model_dir.hpp"

#include <cstring>

#include "base/file.hpp"
#include "policy/weights/weight_hash.hpp"
#include "support/test.hpp"

using namespace quern::policy;
namespace base = quern::base;

namespace {

const std::filesystem::path models = quern::test::source_dir() / "tests/golden/policy/models";

bool mentions(const base::status& status, const std::string& part) {
  return !status && status.error().message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("every golden model is loaded, saved and loaded again with the same bits") {
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    CAPTURE(entry.path().string());
    const auto config = load_model_config(entry.path());
    REQUIRE(config);
    const auto c = make_catalogue(*config, config->dtype);
    REQUIRE(c);
    const auto file = safetensors_reader::open_dir(entry.path());
    REQUIRE(file);
    std::vector<std::byte> arena(c->bytes());
    REQUIRE(load_weights(*file, *c, arena));
    for (const auto& p : c->parameters) {
      const auto* tensor = file->find(p.name);
      REQUIRE(tensor != nullptr);
      CHECK(std::memcmp(tensor->data.data(),
                        arena.data() + static_cast<std::size_t>(p.offset) * size_of(c->dtype),
                        tensor->data.size()) == 0);
    }
    const auto folder = base::temp_folder::make();
    REQUIRE(save_weights(folder->path() / "out", *c, arena, c->dtype, {{"step", "7"}}, 50'000));
    const auto again = safetensors_reader::open_dir(folder->path() / "out");
    REQUIRE(again);
    CHECK(again->metadata().at("format") == "pt");
    CHECK(again->metadata().at("step") == "7");
    std::vector<std::byte> second(c->bytes(), std::byte{0xEE});
    REQUIRE(load_weights(*again, *c, second));
    CHECK(arena == second);
  }
}

TEST_CASE("bfloat16 files fill float arenas exactly, and go back") {
  const auto dir = models / "qwen3_bfloat16";
  const auto config = *load_model_config(dir);
  const auto file = *safetensors_reader::open_dir(dir);
  const auto half = *make_catalogue(config, weight_dtype::bf16);
  const auto full = *make_catalogue(config, weight_dtype::f32);
  std::vector<std::byte> half_arena(half.bytes());
  std::vector<std::byte> full_arena(full.bytes());
  REQUIRE(load_weights(file, half, half_arena));
  REQUIRE(load_weights(file, full, full_arena));
  const auto folder = base::temp_folder::make();
  REQUIRE(save_weights(folder->path(), full, full_arena, weight_dtype::bf16));
  std::vector<std::byte> back(half.bytes());
  REQUIRE(load_weights(*safetensors_reader::open_dir(folder->path()), half, back));
  CHECK(back == half_arena);
}

TEST_CASE("files that do not fit the model are refused by name") {
  const auto dir = models / "qwen2_tied";
  const auto config = *load_model_config(dir);
  const auto c = *make_catalogue(config, weight_dtype::f32);
  const auto file = *safetensors_reader::open_dir(dir);
  std::vector<std::byte> arena(c.bytes());
  const auto folder = base::temp_folder::make();
  const auto with = [&](std::vector<tensor_view> tensors) {
    REQUIRE(write_safetensors(folder->path() / "model.safetensors", tensors));
    return load_weights(*safetensors_reader::open_dir(folder->path()), c, arena);
  };
  const auto all = file.tensors();
  CHECK(with(all));
  CHECK(mentions(with({all.begin(), all.end() - 1}), all.back().name));
  auto extra = all;
  extra.push_back(
      {"model.layers.0.self_attn.o_proj.bias", weight_dtype::f32, {}, all[0].data.first(4)});
  CHECK(mentions(with(extra), "o_proj.bias"));
  auto reshaped = all;
  for (auto& tensor : reshaped)
    if (tensor.name == "model.embed_tokens.weight") std::swap(tensor.shape[0], tensor.shape[1]);
  CHECK(mentions(with(reshaped), "shape [32, 304]"));

  auto copy = *file.find("model.embed_tokens.weight");
  copy.name = "lm_head.weight";
  auto doubled = all;
  doubled.push_back(copy);
  doubled.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq",
                     weight_dtype::f32,
                     {},
                     all[0].data.first(4)});
  CHECK(with(doubled));
  std::vector<std::byte> changed(copy.data.begin(), copy.data.end());
  changed[5] ^= std::byte{1};
  doubled[all.size()].data = changed;
  CHECK(mentions(with(doubled), "tied"));
  CHECK_FALSE(load_weights(file, c, std::span(arena).first(8)));
  const parameter& first = c.parameters.front();
  const auto size = static_cast<std::size_t>(first.count()) * 4;
  CHECK(load_parameter(file, first, weight_dtype::f32, std::span(arena).first(size)));
  CHECK(mentions(load_parameter(file, first, weight_dtype::f32, std::span(arena).first(size - 4)),
                 first.name));
}

TEST_CASE("a part of the weights is loaded but never saved as a whole") {
  const auto dir = models / "llama3_sharded";
  const auto config = *load_model_config(dir);
  const auto file = *safetensors_reader::open_dir(dir);
  const auto part = *make_catalogue(config, weight_dtype::f32, {1, 1, 2});
  std::vector<std::byte> arena(part.bytes());
  REQUIRE(load_weights(file, part, arena));
  const auto* down = part.find("model.layers.0.mlp.down_proj.weight");
  const auto* whole = file.find(down->name);
  for (const std::int64_t row : {0, 31}) {
    const auto at = static_cast<std::size_t>(down->offset + row * 32) * 4;
    const auto from = static_cast<std::size_t>(row * 64 + 32) * 4;
    CHECK(std::memcmp(arena.data() + at, whole->data.data() + from, 32 * 4) == 0);
  }
  const auto folder = base::temp_folder::make();
  CHECK(mentions(save_weights(folder->path(), part, arena, weight_dtype::f32), "gather"));
}
