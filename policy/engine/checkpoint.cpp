// Saving and loading what a trainer needs to go on.
#include "policy/engine/checkpoint.hpp"

#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "base/file.hpp"
#include "policy/weights/model_dir.hpp"
#include "policy/weights/safetensors.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

constexpr std::size_t tokenizer_file_limit = 256U << 20U;
constexpr std::array<std::string_view, 6> tokenizer_files{"tokenizer.json",
                                                          "tokenizer_config.json",
                                                          "special_tokens_map.json",
                                                          "chat_template.jinja",
                                                          "vocab.json",
                                                          "merges.txt"};

std::span<const std::byte> bytes_of(const at::Tensor& floats, std::int64_t offset,
                                    std::int64_t count) {
  return {reinterpret_cast<const std::byte*>(floats.const_data_ptr<float>() + offset),
          static_cast<std::size_t>(count) * sizeof(float)};
}

void list_moments(const catalogue& layout, std::string_view prefix, const at::Tensor& floats,
                  std::vector<tensor_view>& out) {
  for (const parameter& p : layout.parameters)
    out.push_back({std::string(prefix) + p.name, weight_dtype::f32, p.shape,
                   bytes_of(floats, p.offset, p.count())});
}

base::status read_moments(const safetensors_reader& file, const catalogue& layout,
                          at::Tensor& moments, std::string_view prefix) {
  for (const parameter& p : layout.parameters) {
    const std::string name = std::string(prefix) + p.name;
    const tensor_view* found = file.find(name);
    if (!found)
      return fail(errc::corrupt, "optimiser file without {}; it belongs to another model", name);
    if (found->shape != p.shape || found->dtype != weight_dtype::f32)
      return fail(errc::corrupt,
                  "optimiser file: {} has another shape or type than the model's parameter", name);
    const at::Tensor floats = at::empty({p.count()}, at::kFloat);
    std::memcpy(floats.mutable_data_ptr<float>(), found->data.data(), found->data.size());
    moments.narrow(0, p.offset, p.count()).copy_(floats);
  }
  return {};
}

at::ScalarType scalar_of(weight_dtype dtype) {
  switch (dtype) {
    case weight_dtype::f32:
      return at::kFloat;
    case weight_dtype::bf16:
      return at::kBFloat16;
    case weight_dtype::f16:
      break;
  }
  return at::kHalf;
}

base::status check_whole(const adamw& optimizer, std::string_view otherwise) {
  if (optimizer.layout.place.ranks == 1) return {};
  return fail(errc::invalid_argument, "the optimiser is one of {} ranks: {}",
              optimizer.layout.place.ranks, otherwise);
}

}  // namespace

parameter_arena for_files(const parameter_arena& arena) {
  parameter_arena copy = arena;
  copy.weights = {};
  copy.flat = at::zeros({arena.layout.elements}, scalar_of(arena.config.dtype));
  // Tensor by tensor: what is rounded on its way from a GPU goes through a wide copy on the host.
  for (const parameter& p : arena.layout.parameters)
    copy.flat.narrow(0, p.offset, p.count()).copy_(arena.flat.narrow(0, p.offset, p.count()));
  return copy;
}

base::status save_model(const parameter_arena& arena, const std::filesystem::path& dir,
                        const std::filesystem::path& tokenizer_from,
                        const std::map<std::string, std::string>& metadata,
                        std::uint64_t max_shard_bytes) {
  QUERN_CHECK(base::make_folders(dir));
  QUERN_CHECK(save_model_config(arena.config, dir));
  if (!tokenizer_from.empty())
    for (std::string_view name : tokenizer_files) {
      if (!std::filesystem::exists(tokenizer_from / name)) continue;
      QUERN_TRY(const std::string content,
                base::read_file(tokenizer_from / name, tokenizer_file_limit));
      QUERN_CHECK(base::write_file_atomic(dir / name, content));
    }
  const bool as_stored =
      arena.flat.is_cpu() && arena.flat.scalar_type() == scalar_of(arena.config.dtype);
  const at::Tensor stored = as_stored ? arena.flat : for_files(arena).flat;
  catalogue layout = arena.layout;
  layout.dtype = arena.config.dtype;
  return save_weights(dir, layout,
                      {static_cast<const std::byte*>(stored.const_data_ptr()), layout.bytes()},
                      layout.dtype, metadata, max_shard_bytes);
}

base::status save_optimizer(const adamw& optimizer, const std::filesystem::path& file) {
  QUERN_CHECK(check_whole(optimizer, "a shard does not go into one file (write_shard)"));
  const at::Tensor first = host_floats(optimizer.first), second = host_floats(optimizer.second);
  std::vector<tensor_view> tensors;
  list_moments(optimizer.layout, "first.", first, tensors);
  list_moments(optimizer.layout, "second.", second, tensors);
  const at::Tensor master =
      optimizer.rounded.defined() ? host_floats(optimizer.master) : at::Tensor();
  if (master.defined()) list_moments(optimizer.layout, "master.", master, tensors);
  return write_safetensors(file, tensors, {{"steps", std::to_string(optimizer.steps)}});
}

base::status load_optimizer(adamw& optimizer, const std::filesystem::path& file) {
  QUERN_CHECK(check_whole(optimizer, file.string() +
                                         " is the whole one of a run of one rank: go on with "
                                         "learner.ranks=1 until it has made its next checkpoint"));
  QUERN_TRY(const safetensors_reader reader, safetensors_reader::open_file(file));
  const auto steps = reader.metadata().find("steps");
  if (steps == reader.metadata().end() || steps->second.empty() || steps->second.size() > 18 ||
      steps->second.find_first_not_of("0123456789") != std::string::npos)
    return fail(errc::corrupt,
                "{}: no usable step count in its metadata; this is not an optimiser file",
                file.string());
  QUERN_CHECK(read_moments(reader, optimizer.layout, optimizer.first, "first."));
  QUERN_CHECK(read_moments(reader, optimizer.layout, optimizer.second, "second."));
  // A file of a float32 run has none: its model is what they were.
  const std::string any = "master." + optimizer.layout.parameters.front().name;
  if (reader.find(any) != nullptr) {
    QUERN_CHECK(read_moments(reader, optimizer.layout, optimizer.master, "master."));
    optimizer.round_master();
  }
  optimizer.steps = std::stoll(steps->second);
  return {};
}

base::json to_json(const trainer_state& state) {
  return {{"format", 1},
          {"version", state.version},
          {"optimizer_steps", state.optimizer_steps},
          {"weights_hash", state.weights_hash},
          {"rewards", to_json(state.rewards)}};
}

base::expected<trainer_state> trainer_state_from_json(const base::json& value) {
  QUERN_TRY(const std::int64_t format, base::get<std::int64_t>(value, "format"));
  if (format != 1)
    return fail(errc::version, "trainer state of format {}, but this build reads format 1", format);
  trainer_state state;
  QUERN_TRY(state.version, base::get<std::int64_t>(value, "version"));
  QUERN_TRY(state.optimizer_steps, base::get<std::int64_t>(value, "optimizer_steps"));
  QUERN_TRY(state.weights_hash, base::get<std::string>(value, "weights_hash"));
  if (!value.contains("rewards"))
    return fail(errc::corrupt, "trainer state without reward statistics");
  QUERN_TRY(state.rewards, reward_statistics_from_json(value["rewards"]));
  return state;
}

}  // namespace quern::policy
