// Moves weights between files and arenas.
#include "policy/weights/model_dir.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/file.hpp"

namespace quern::policy {

using base::errc;
using base::fail;

namespace {

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

bool same_bits(const tensor_view* a, const tensor_view* b) {
  return a != nullptr && b != nullptr && a->dtype == b->dtype && a->shape == b->shape &&
         std::equal(a->data.begin(), a->data.end(), b->data.begin(), b->data.end());
}

/// Tensors of the file that the model has no place for.
base::status check_unknown_tensors(const safetensors_reader& file, const catalogue& catalogue) {
  for (const auto& tensor : file.tensors()) {
    if (catalogue.find(tensor.name) != nullptr) continue;
    if (tensor.name.ends_with("rotary_emb.inv_freq")) continue;
    if (tensor.name == "lm_head.weight") {
      if (same_bits(&tensor, file.find("model.embed_tokens.weight"))) continue;
      return fail(errc::invalid_argument,
                  "the embeddings are tied, but 'lm_head.weight' is there and differs from them");
    }
    return fail(errc::invalid_argument, "the file has a tensor '{}' that the model does not have",
                tensor.name);
  }
  return {};
}

base::status check_arena(const catalogue& catalogue, std::size_t bytes) {
  if (bytes == catalogue.bytes()) return {};
  return fail(errc::invalid_argument, "the arena has {} bytes; the catalogue describes {}", bytes,
              catalogue.bytes());
}

}  // namespace

base::status check_weights(const safetensors_reader& file, const catalogue& catalogue) {
  QUERN_CHECK(check_unknown_tensors(file, catalogue));
  for (const auto& p : catalogue.parameters) {
    const tensor_view* tensor = file.find(p.name);
    if (tensor == nullptr)
      return fail(errc::invalid_argument, "the file has no tensor '{}', which the model needs",
                  p.name);
    if (tensor->shape != p.shape)
      return fail(errc::invalid_argument, "'{}' has the shape {} in the file, {} in the model",
                  p.name, shape_text(tensor->shape), shape_text(p.shape));
  }
  return {};
}

base::status load_parameter(const safetensors_reader& file, const parameter& p, weight_dtype dtype,
                            std::span<std::byte> values) {
  const tensor_view* tensor = file.find(p.name);
  const std::size_t from_size = tensor == nullptr ? 0 : size_of(tensor->dtype),
                    to_size = size_of(dtype);
  if (tensor == nullptr || tensor->shape != p.shape ||
      values.size() != static_cast<std::size_t>(p.count()) * to_size)
    return fail(errc::invalid_argument, "'{}' was not checked against the file", p.name);
  const std::int64_t whole_columns = p.shape.size() == 2 ? p.shape[1] : 1;
  const auto count = static_cast<std::size_t>(p.columns());
  for (std::int64_t row = 0; row < p.rows(); ++row) {
    const auto from =
        static_cast<std::size_t>((p.row_begin + row) * whole_columns + p.column_begin);
    const auto to = static_cast<std::size_t>(row) * count;
    QUERN_CHECK(convert(tensor->data.subspan(from * from_size, count * from_size), tensor->dtype,
                        values.subspan(to * to_size, count * to_size), dtype));
  }
  return {};
}

base::status load_weights(const safetensors_reader& file, const catalogue& catalogue,
                          std::span<std::byte> arena) {
  QUERN_CHECK(check_arena(catalogue, arena.size()));
  QUERN_CHECK(check_weights(file, catalogue));
  std::fill(arena.begin(), arena.end(), std::byte{0});
  const std::size_t size = size_of(catalogue.dtype);
  for (const auto& p : catalogue.parameters)
    QUERN_CHECK(load_parameter(file, p, catalogue.dtype,
                               arena.subspan(static_cast<std::size_t>(p.offset) * size,
                                             static_cast<std::size_t>(p.count()) * size)));
  return {};
}

base::status save_weights(const std::filesystem::path& dir, const catalogue& catalogue,
                          std::span<const std::byte> arena, weight_dtype dtype,
                          std::map<std::string, std::string> metadata,
                          std::uint64_t max_shard_bytes) {
  QUERN_CHECK(check_arena(catalogue, arena.size()));
  if (catalogue.place.tensor_size != 1)
    return fail(errc::invalid_argument,
                "this arena is part {} of {} of the weights; gather them first",
                catalogue.place.tensor_rank, catalogue.place.tensor_size);
  std::vector<std::byte> converted;
  std::span<const std::byte> source = arena;
  if (dtype != catalogue.dtype) {
    converted.resize(static_cast<std::size_t>(catalogue.elements) * size_of(dtype));
    QUERN_CHECK(convert(arena, catalogue.dtype, converted, dtype));
    source = converted;
  }
  std::vector<tensor_view> tensors;
  for (const auto& p : catalogue.parameters)
    tensors.push_back({p.name, dtype, p.shape,
                       source.subspan(static_cast<std::size_t>(p.offset) * size_of(dtype),
                                      static_cast<std::size_t>(p.count()) * size_of(dtype))});
  metadata.try_emplace("format", "pt");
  QUERN_CHECK(base::make_folders(dir));
  return write_safetensors_dir(dir, tensors, max_shard_bytes, metadata);
}

}  // namespace quern::policy
