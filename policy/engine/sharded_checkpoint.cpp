#include "policy/engine/sharded_checkpoint.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include <ATen/ops/zeros.h>

#include "base/file.hpp"
#include "base/thread.hpp"
#include "policy/weights/safetensors.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

constexpr const char* manifest_name = "manifest.json";
constexpr std::int64_t manifest_format = 1;

/// What a shard holds of each parameter, and under which prefix.
struct held_tensor {
  const char* prefix;
  at::Tensor adamw::*of_optimizer;
  at::Tensor optimizer_snapshot::*of_snapshot;
};
constexpr std::array<held_tensor, 3> held{
    held_tensor{"master.", &adamw::master, &optimizer_snapshot::master},
    held_tensor{"first.", &adamw::first, &optimizer_snapshot::first},
    held_tensor{"second.", &adamw::second, &optimizer_snapshot::second}};

std::span<const std::byte> shard_bytes(const at::Tensor& floats, std::int64_t begin,
                                       std::int64_t count) {
  return {reinterpret_cast<const std::byte*>(floats.const_data_ptr<float>() + begin),
          static_cast<std::size_t>(count) * sizeof(float)};
}

/// A copy, also where it is on the host already.
at::Tensor host_copy(const at::Tensor& flat) {
  return flat.to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true).contiguous();
}

base::hash128 content_hash(std::span<const tensor_view> tensors,
                           const std::map<std::string, std::string>& metadata) {
  base::hasher hash;
  for (const auto& [key, value] : metadata)
    hash.add(key).add(value);
  for (const tensor_view& one : tensors)
    hash.add(one.name).add(one.data);
  return hash.digest();
}

/// Of names and whole shapes: what a checkpoint of one model has in common with no other.
base::hash128 model_hash(const catalogue& layout) {
  base::hasher hash;
  for (const parameter& p : layout.parameters) {
    hash.add(p.name);
    for (const std::int64_t size : p.shape)
      hash.add(static_cast<std::uint64_t>(size));
  }
  return hash.digest();
}

struct checkpoint_manifest {
  std::int64_t steps = 0;
  std::vector<shard_file> files;
};

base::expected<checkpoint_manifest> read_manifest(const std::filesystem::path& folder,
                                                  const catalogue& layout) {
  auto text = base::read_file(folder / manifest_name);
  if (!text)
    return fail(errc::not_found, "{} has no {}: it was never finished", folder.string(),
                manifest_name);
  QUERN_TRY(const base::json value, base::parse_json(*text));
  QUERN_TRY(const std::int64_t format, base::get<std::int64_t>(value, "format"));
  if (format != manifest_format)
    return fail(errc::version, "{} is of format {}, this build reads {}",
                (folder / manifest_name).string(), format, manifest_format);
  checkpoint_manifest manifest;
  QUERN_TRY(manifest.steps, base::get<std::int64_t>(value, "steps"));
  QUERN_TRY(const std::string model, base::get<std::string>(value, "model"));
  if (model != base::to_hex(model_hash(layout)))
    return fail(errc::corrupt, "{} belongs to another model", folder.string());
  if (!value.contains("files") || !value["files"].is_array())
    return fail(errc::corrupt, "{} lists no files", (folder / manifest_name).string());
  for (const base::json& entry : value["files"]) {
    QUERN_TRY(shard_file file, shard_file_from_json(entry));
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

/// The ranges of one file, by parameter name.
base::expected<std::map<std::string, std::int64_t>> ranges_of(const safetensors_reader& file,
                                                              const std::string& name) {
  std::map<std::string, std::int64_t> ranges;
  constexpr std::string_view prefix = "from.";
  for (const auto& [key, text] : file.metadata()) {
    if (!key.starts_with(prefix)) continue;
    std::int64_t from = -1;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), from);
    if (code != std::errc() || end != text.data() + text.size() || from < 0)
      return fail(errc::corrupt, "{}: {} is '{}'", name, key, text);
    ranges[key.substr(prefix.size())] = from;
  }
  return ranges;
}

/// Copies what `file` and the shard have in common; counts the elements of each held tensor.
base::status take_common(const safetensors_reader& file, const std::string& name,
                         const catalogue& layout, const shard_map& shard,
                         std::array<at::Tensor, held.size()>& targets,
                         std::array<std::int64_t, held.size()>& filled) {
  QUERN_TRY(const auto ranges, ranges_of(file, name));
  for (const shard_slice& slice : shard.slices) {
    const parameter& p = layout.parameters[slice.parameter];
    const auto from = ranges.find(p.name);
    if (from == ranges.end()) continue;
    for (std::size_t k = 0; k < held.size(); ++k) {
      const tensor_view* source = file.find(held[k].prefix + p.name);
      if (source == nullptr || source->dtype != weight_dtype::f32 || source->shape.size() != 1 ||
          from->second + source->shape[0] > p.count())
        return fail(errc::corrupt, "{}: {}{} is missing or not a range of it", name, held[k].prefix,
                    p.name);
      const std::int64_t begin = std::max(slice.in_parameter, from->second),
                         end = std::min(slice.in_parameter + slice.count,
                                        from->second + source->shape[0]);
      if (begin >= end) continue;
      std::memcpy(
          targets[k].mutable_data_ptr<float>() + slice.in_shard + begin - slice.in_parameter,
          source->data.data() + static_cast<std::size_t>(begin - from->second) * sizeof(float),
          static_cast<std::size_t>(end - begin) * sizeof(float));
      filled[k] += end - begin;
    }
  }
  return {};
}

}  // namespace

optimizer_snapshot snapshot(const adamw& optimizer) {
  return {optimizer.layout,
          optimizer.shard,
          host_copy(optimizer.master),
          host_copy(optimizer.first),
          host_copy(optimizer.second),
          optimizer.steps};
}

base::json to_json(const shard_file& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"hash", base::to_hex(file.hash)}};
}

base::expected<shard_file> shard_file_from_json(const base::json& value) {
  shard_file file;
  QUERN_TRY(file.name, base::get<std::string>(value, "name"));
  QUERN_TRY(file.bytes, base::get<std::int64_t>(value, "bytes"));
  QUERN_TRY(const std::string hash, base::get<std::string>(value, "hash"));
  QUERN_TRY(file.hash, base::parse_hash(hash));
  if (file.name.empty() || std::filesystem::path(file.name).filename() != file.name)
    return fail(errc::corrupt, "'{}' is not the name of a file of a checkpoint", file.name);
  return file;
}

base::expected<shard_file> write_shard(const optimizer_snapshot& what,
                                       const std::filesystem::path& folder) {
  QUERN_CHECK(base::make_folders(folder));
  std::vector<tensor_view> tensors;
  std::map<std::string, std::string> metadata;
  for (const shard_slice& slice : what.shard.slices) {
    const std::string& name = what.layout.parameters[slice.parameter].name;
    metadata["from." + name] = std::to_string(slice.in_parameter);
    for (const held_tensor& one : held)
      tensors.push_back({one.prefix + name,
                         weight_dtype::f32,
                         {slice.count},
                         shard_bytes(what.*one.of_snapshot, slice.in_shard, slice.count)});
  }
  shard_file file;
  file.name =
      fmt::format("shard-{:03}-of-{:03}.safetensors", what.shard.rank, what.layout.place.ranks);
  QUERN_CHECK(write_safetensors(folder / file.name, tensors, metadata));
  std::error_code code;
  file.bytes = static_cast<std::int64_t>(std::filesystem::file_size(folder / file.name, code));
  file.hash = content_hash(tensors, metadata);
  return file;
}

base::status write_manifest(const optimizer_snapshot& what, const std::vector<shard_file>& files,
                            const std::filesystem::path& folder) {
  base::json list = base::json::array();
  for (const shard_file& file : files)
    list.push_back(to_json(file));
  const base::json manifest = {{"format", manifest_format},
                               {"ranks", what.layout.place.ranks},
                               {"steps", what.steps},
                               {"model", base::to_hex(model_hash(what.layout))},
                               {"files", list}};
  return base::write_file_atomic(folder / manifest_name, base::dump_pretty(manifest));
}

base::status load_shards(adamw& optimizer, const std::filesystem::path& folder) {
  QUERN_TRY(const checkpoint_manifest manifest, read_manifest(folder, optimizer.layout));
  std::array<at::Tensor, held.size()> targets;
  for (at::Tensor& target : targets)
    target = at::zeros({optimizer.shard.elements}, at::kFloat);
  std::array<std::int64_t, held.size()> filled{};
  for (const shard_file& file : manifest.files) {
    QUERN_TRY(const safetensors_reader reader, safetensors_reader::open_file(folder / file.name));
    if (content_hash(reader.tensors(), reader.metadata()) != file.hash)
      return fail(errc::corrupt, "{} is not what was written: take an earlier checkpoint",
                  (folder / file.name).string());
    QUERN_CHECK(take_common(reader, file.name, optimizer.layout, optimizer.shard, targets, filled));
  }
  std::int64_t needed = 0;
  for (const shard_slice& slice : optimizer.shard.slices)
    needed += slice.count;
  for (std::size_t k = 0; k < held.size(); ++k)
    if (filled[k] != needed)
      return fail(errc::corrupt, "{} holds {} of the {} elements of {}* that this shard needs",
                  folder.string(), filled[k], needed, held[k].prefix);
  for (std::size_t k = 0; k < held.size(); ++k)
    (optimizer.*held[k].of_optimizer).copy_(targets[k]);
  optimizer.steps = manifest.steps;
  return {};
}

checkpoint_writer::~checkpoint_writer() {
  wait();
}

void checkpoint_writer::wait() {
  if (thread_.joinable()) thread_.join();
}

void checkpoint_writer::write(optimizer_snapshot what, std::filesystem::path folder,
                              std::function<base::status()> more,
                              std::function<void(base::status)> done) {
  wait();
  thread_ = std::thread([this, what = std::move(what), folder = std::move(folder),
                         more = std::move(more), done = std::move(done), number = ++written_] {
    base::name_this_thread("checkpoint");
    base::status result = run(what, folder, more, number);
    if (done) done(std::move(result));
  });
}

base::status checkpoint_writer::run(const optimizer_snapshot& what,
                                    const std::filesystem::path& folder,
                                    const std::function<base::status()>& more,
                                    std::int64_t number) {
  const auto own_part = [&]() -> base::expected<shard_file> {
    if (more) QUERN_CHECK(more());
    return write_shard(what, folder);
  };
  auto own = own_part();
  if (link_ == nullptr) {
    if (!own) return tl::make_unexpected(std::move(own).error());
    return write_manifest(what, {std::move(*own)}, folder);
  }
  // A rank that failed says so, or the others would wait for it.
  const auto key = [&](std::string_view of) { return fmt::format("checkpoint/{}/{}", number, of); };
  const base::json told = own ? to_json(*own) : base::json{{"problem", own.error().message}};
  QUERN_CHECK(link_->set(key(std::to_string(link_->rank())), base::dump(told)));
  if (link_->rank() == 0) {
    const auto finish = [&]() -> base::status {
      std::vector<std::string> words;
      // All have done what they do to the folder before anybody takes it away.
      for (std::int32_t rank = 0; rank < link_->ranks(); ++rank) {
        QUERN_TRY(std::string text, link_->get(key(std::to_string(rank))));
        words.push_back(std::move(text));
      }
      std::vector<shard_file> files;
      for (std::size_t rank = 0; rank < words.size(); ++rank) {
        QUERN_TRY(const base::json value, base::parse_json(words[rank]));
        if (value.contains("problem"))
          return fail(errc::io, "rank {}: {}", rank, value.value("problem", ""));
        QUERN_TRY(shard_file file, shard_file_from_json(value));
        files.push_back(std::move(file));
      }
      return write_manifest(what, files, folder);
    };
    const base::status result = finish();
    QUERN_CHECK(link_->set(key("end"), result ? "" : result.error().message));
    return result;
  }
  QUERN_TRY(const std::string problem, link_->get(key("end")));
  if (!problem.empty()) return fail(errc::io, "{}", problem);
  return {};
}

}  // namespace quern::policy
