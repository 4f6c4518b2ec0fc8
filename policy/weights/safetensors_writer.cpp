// Writes safetensors files: the header in a fixed form, the data after it, all or nothing.
#include <cstdio>
#include <set>

#include <fcntl.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "policy/weights/safetensors.hpp"

namespace quern::policy {

using base::errc;
using base::fail;
using base::ordered_json;

namespace {

base::status check_tensors(std::span<const tensor_view> tensors) {
  std::set<std::string_view> names;
  for (const auto& tensor : tensors) {
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second)
      return fail(errc::invalid_argument, "tensor name '{}' is taken", tensor.name);
    std::uint64_t bytes = size_of(tensor.dtype);
    for (const std::int64_t extent : tensor.shape) {
      if (extent < 0)
        return fail(errc::invalid_argument, "tensor '{}' has an extent of {}", tensor.name, extent);
      bytes *= static_cast<std::uint64_t>(extent);
    }
    if (bytes != tensor.data.size())
      return fail(errc::invalid_argument, "tensor '{}' has {} bytes; its shape needs {}",
                  tensor.name, tensor.data.size(), bytes);
  }
  return {};
}

/// Length and header, padded with spaces so that the data start at a multiple of eight bytes.
std::string header_text(std::span<const tensor_view> tensors,
                        const std::map<std::string, std::string>& metadata) {
  ordered_json header = ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const auto& tensor : tensors) {
    const std::uint64_t end = at + tensor.data.size();
    header[tensor.name] = {{"dtype", safetensors_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = base::dump(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string prefix;
  for (int i = 0; i < 8; ++i)
    prefix.push_back(static_cast<char>(text.size() >> (8 * i)));
  return prefix + text;
}

base::status write_content(int fd, const std::string& header,
                           std::span<const tensor_view> tensors) {
  QUERN_CHECK(base::write_all(fd, header));
  for (const auto& tensor : tensors)
    QUERN_CHECK(base::write_all(
        fd, {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()}));
  if (::fsync(fd) != 0) return base::fail_errno("syncing weights");
  return {};
}

}  // namespace

base::status write_safetensors(const std::filesystem::path& file,
                               std::span<const tensor_view> tensors,
                               const std::map<std::string, std::string>& metadata) {
  QUERN_CHECK(check_tensors(tensors));
  const std::string header = header_text(tensors, metadata);
  if (header.size() - 8 > max_safetensors_header)
    return fail(errc::invalid_argument, "{}: the header would have {} bytes; the limit is {}",
                file.string(), header.size() - 8, max_safetensors_header);
  // Streamed rather than built in memory: the data may be larger than what is free.
  const std::filesystem::path temporary = file.string() + ".tmp" + std::to_string(::getpid());
  const base::unique_fd fd(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return base::fail_errno("creating " + temporary.string());
  auto written = write_content(fd.get(), header, tensors);
  if (written && ::rename(temporary.c_str(), file.c_str()) != 0)
    written = base::fail_errno("renaming " + temporary.string());
  if (!written) {
    ::unlink(temporary.c_str());
    return base::in_context(file.string(), written.error());
  }
  const auto folder = file.parent_path();
  return base::sync_folder(folder.empty() ? "." : folder);
}

base::status write_safetensors_dir(const std::filesystem::path& dir,
                                   std::span<const tensor_view> tensors,
                                   std::uint64_t max_shard_bytes,
                                   const std::map<std::string, std::string>& metadata) {
  QUERN_CHECK(check_tensors(tensors));
  std::vector<std::span<const tensor_view>> shards;
  std::size_t first = 0;
  std::uint64_t total = 0;
  std::uint64_t in_shard = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t size = tensors[i].data.size();
    if (i > first && in_shard + size > max_shard_bytes) {
      shards.push_back(tensors.subspan(first, i - first));
      first = i;
      in_shard = 0;
    }
    in_shard += size;
    total += size;
  }
  shards.push_back(tensors.subspan(first));

  const auto index_file = dir / "model.safetensors.index.json";
  if (shards.size() == 1) {
    QUERN_CHECK(write_safetensors(dir / "model.safetensors", tensors, metadata));
    // An index left by an earlier, sharded save would win over the new file.
    std::error_code ignored;
    std::filesystem::remove(index_file, ignored);
    return {};
  }
  ordered_json index{{"metadata", {{"total_size", total}}}, {"weight_map", ordered_json::object()}};
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    QUERN_CHECK(write_safetensors(dir / name, shards[i], metadata));
    for (const auto& tensor : shards[i])
      index["weight_map"][tensor.name] = name;
  }
  return base::write_file_atomic(index_file, base::dump_pretty(index) + "\n");
}

}  // namespace quern::policy
