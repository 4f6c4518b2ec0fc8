// An optimiser on disk as its ranks hold it: every rank writes its shard of master weights and
// moments, a manifest that names and hashes all of them comes last. What a shard holds is told by
// parameter and range, so that any other number of ranks can load it.
//
//   FOLDER/{shard-000-of-004.safetensors, ..., manifest.json}
//
// A folder without its manifest is not a checkpoint. Tensors "master.NAME", "first.NAME" and
// "second.NAME" of a shard are the elements [from, from + count) of the parameter, row-major,
// float32; `from` is in the file's metadata as "from.NAME".
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"
#include "policy/collectives/rendezvous.hpp"
#include "policy/engine/optimizer.hpp"

namespace quern::policy {

/// A copy of one rank's optimiser in host memory: the trainer goes on while it is written.
struct optimizer_snapshot {
  catalogue layout;
  shard_map shard;
  at::Tensor master, first, second;  ///< float32, on the host, not shared with the optimiser
  std::int64_t steps = 0;
};
optimizer_snapshot snapshot(const adamw& optimizer);

/// A file of a sharded checkpoint.
struct shard_file {
  std::string name;
  std::int64_t bytes = 0;
  base::hash128 hash;
  bool operator==(const shard_file&) const = default;
};
base::json to_json(const shard_file& file);
base::expected<shard_file> shard_file_from_json(const base::json& value);

/// Writes the rank's file into `folder`, atomically and durably.
base::expected<shard_file> write_shard(const optimizer_snapshot& what,
                                       const std::filesystem::path& folder);
/// Writes the manifest over all ranks' files: from then on the folder is a checkpoint.
base::status write_manifest(const optimizer_snapshot& what, const std::vector<shard_file>& files,
                            const std::filesystem::path& folder);
/// Fills a shard of the same model, of any number of ranks: master weights, moments, step count.
/// Every byte is checked against the manifest. Refused: no manifest (not a checkpoint), a file that
/// is missing or not what was written, another model, elements that no file holds.
base::status load_shards(adamw& optimizer, const std::filesystem::path& folder);

/// Writes checkpoints of a group in the background, one at a time. Every rank has one; rank 0
/// writes the manifest when all have told it that their shards are durable, and only then any rank
/// calls back. One thread; its destructor waits for what is being written.
class checkpoint_writer {
 public:
  /// `link` is null for one rank and outlives the writer.
  explicit checkpoint_writer(rendezvous* link = nullptr) : link_(link) {}
  ~checkpoint_writer();
  checkpoint_writer(const checkpoint_writer&) = delete;
  checkpoint_writer& operator=(const checkpoint_writer&) = delete;

  /// Returns when the write before it is done. `more` writes what else belongs to the checkpoint
  /// (the model) on the same thread, before the manifest; `done` is called on it with the result.
  void write(optimizer_snapshot what, std::filesystem::path folder,
             std::function<base::status()> more, std::function<void(base::status)> done);
  /// Until nothing is being written.
  void wait();

 private:
  base::status run(const optimizer_snapshot& what, const std::filesystem::path& folder,
                   const std::function<base::status()>& more, std::int64_t number);
  rendezvous* link_;
  std::int64_t written_ = 0;  ///< numbers the writes of a group alike on all ranks
  std::thread thread_;
};

}  // namespace quern::policy
