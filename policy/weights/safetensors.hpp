// Reader and writer of the safetensors format: 8 bytes little-endian header length, a JSON header
// {name: {dtype, shape, data_offsets}}, then the tensors' bytes without gaps. The reader maps the
// file and trusts nothing in it; the writer is deterministic and atomic. Sharded directories
// (model.safetensors.index.json) are read and written too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "policy/weights/dtype.hpp"

namespace quern::policy {

/// A named tensor whose bytes lie elsewhere: row-major, little endian, `data.size()` is the product
/// of `shape` times size_of(dtype). A scalar has an empty shape.
struct tensor_view {
  std::string name;
  weight_dtype dtype = weight_dtype::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

inline constexpr std::uint64_t max_safetensors_header = 100'000'000;  // the format's own limit

/// Parses a whole file held in memory; the views point into `bytes`. Refused, with the tensor's
/// name and the numbers: a header longer than the file or than the limit, bad JSON, a name that
/// occurs twice, a dtype other than F32/BF16/F16, negative or overflowing shapes, a range that does
/// not match its shape, overlaps, holes, and bytes after the last tensor. Views are ordered by
/// position.
base::expected<std::vector<tensor_view>> parse_safetensors(
    std::span<const std::byte> bytes, std::map<std::string, std::string>* metadata = nullptr);

/// The tensors of a model directory: DIR/model.safetensors, or the shards that
/// DIR/model.safetensors.index.json lists. Files stay mapped as long as the object lives; copies
/// share the mapping. Immutable, so any thread may read. The files must not be changed meanwhile
/// (Quern replaces files by rename, which leaves a mapping alone).
class safetensors_reader {
 public:
  static base::expected<safetensors_reader> open_file(const std::filesystem::path& file);
  /// Also checks that index and shards agree: each listed tensor is in its listed file, each tensor
  /// of each file is listed, and no file lies outside DIR.
  static base::expected<safetensors_reader> open_dir(const std::filesystem::path& dir);

  /// In file order, shards in order of their names.
  const std::vector<tensor_view>& tensors() const { return tensors_; }
  /// Null if there is none.
  const tensor_view* find(std::string_view name) const;
  /// `__metadata__` of the (first) file.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  class mapping;
  base::status add_file(const std::filesystem::path& file);
  base::status build_index();

  std::vector<std::shared_ptr<const mapping>> files_;
  std::vector<tensor_view> tensors_;
  std::vector<std::size_t> by_name_;  // indices into tensors_, sorted by name
  std::map<std::string, std::string> metadata_;
};

/// Names of the files in DIR that hold the weights, sorted: model.safetensors, or the index and the
/// shards that it lists. Errors: an index that cannot be read; whether the files are there is not
/// asked.
base::expected<std::vector<std::string>> weight_files(const std::filesystem::path& dir);

/// Writes one file atomically. The order of `tensors` is the order in the file; equal arguments
/// give equal bytes. Refused: a name twice, data that does not match dtype and shape.
base::status write_safetensors(const std::filesystem::path& file,
                               std::span<const tensor_view> tensors,
                               const std::map<std::string, std::string>& metadata = {});

/// Writes DIR/model.safetensors or, above `max_shard_bytes`, DIR/model-0000i-of-0000n.safetensors
/// and the index (last). A tensor is never split; shards are filled in order.
base::status write_safetensors_dir(const std::filesystem::path& dir,
                                   std::span<const tensor_view> tensors,
                                   std::uint64_t max_shard_bytes,
                                   const std::map<std::string, std::string>& metadata = {});

}  // namespace quern::policy
