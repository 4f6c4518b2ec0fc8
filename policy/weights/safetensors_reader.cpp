// Maps safetensors files, single or sharded, and finds tensors in them by name.
#include <algorithm>
#include <numeric>
#include <set>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "policy/weights/safetensors.hpp"

namespace quern::policy {

using base::errc;
using base::expected;
using base::fail;

/// A file mapped read-only. Private, so that nothing here can write to it.
class safetensors_reader::mapping {
 public:
  static expected<std::shared_ptr<const mapping>> open(const std::filesystem::path& file) {
    const base::unique_fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return base::fail_errno("opening " + file.string());
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0)
      return base::fail_errno("reading the size of " + file.string());
    if (!S_ISREG(info.st_mode))
      return fail(errc::invalid_argument, "{} is not a regular file", file.string());
    const auto size = static_cast<std::size_t>(info.st_size);
    if (size == 0) return fail(errc::corrupt, "{} is empty", file.string());
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (memory == MAP_FAILED) return base::fail_errno("mapping " + file.string());
    return std::shared_ptr<const mapping>(new mapping(memory, size));
  }

  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;
  ~mapping() { ::munmap(memory_, size_); }

  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(memory_), size_};
  }

 private:
  mapping(void* memory, std::size_t size) : memory_(memory), size_(size) {}
  void* memory_;
  std::size_t size_;
};

base::status safetensors_reader::add_file(const std::filesystem::path& file) {
  QUERN_TRY(auto mapped, mapping::open(file));
  auto tensors = parse_safetensors(mapped->bytes(), files_.empty() ? &metadata_ : nullptr);
  if (!tensors) return base::in_context(file.string(), tensors.error());
  files_.push_back(std::move(mapped));
  std::move(tensors->begin(), tensors->end(), std::back_inserter(tensors_));
  return {};
}

base::status safetensors_reader::build_index() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  const auto name_at = [this](std::size_t i) -> const std::string& { return tensors_[i].name; };
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::size_t a, std::size_t b) { return name_at(a) < name_at(b); });
  for (std::size_t i = 1; i < by_name_.size(); ++i)
    if (name_at(by_name_[i]) == name_at(by_name_[i - 1]))
      return fail(errc::corrupt, "tensor '{}' is in two shards", name_at(by_name_[i]));
  return {};
}

const tensor_view* safetensors_reader::find(std::string_view name) const {
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [this](std::size_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

expected<safetensors_reader> safetensors_reader::open_file(const std::filesystem::path& file) {
  safetensors_reader reader;
  QUERN_CHECK(reader.add_file(file));
  QUERN_CHECK(reader.build_index());
  return reader;
}

namespace {

constexpr std::size_t max_index_bytes = 100'000'000;
constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

/// Tensor name -> file name, as the index says.
expected<std::map<std::string, std::string>> read_index(const std::filesystem::path& file) {
  QUERN_TRY(const auto text, base::read_file(file, max_index_bytes));
  QUERN_TRY(const auto index, base::parse_json(text));
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object() || map->empty())
    return fail(errc::corrupt, "'weight_map' is missing or empty");
  std::map<std::string, std::string> result;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string()) return fail(errc::corrupt, "the file of '{}' is not text", name);
    const std::filesystem::path path(shard.get<std::string>());
    if (path.empty() || path != path.filename() || path == "..")
      return fail(errc::corrupt, "the file of '{}' is '{}', which is not a plain name", name,
                  path.string());
    result.emplace(name, path.string());
  }
  return result;
}

}  // namespace

expected<safetensors_reader> safetensors_reader::open_dir(const std::filesystem::path& dir) {
  const auto index_file = dir / index_name;
  if (!std::filesystem::exists(index_file)) return open_file(dir / single_name);
  auto index = read_index(index_file);
  if (!index) return base::in_context(index_file.string(), index.error());

  std::map<std::string, std::size_t> listed;  // file -> number of tensors
  for (const auto& [name, file] : *index)
    ++listed[file];
  safetensors_reader reader;
  for (const auto& [file, count] : listed) {
    const std::size_t before = reader.tensors_.size();
    QUERN_CHECK(reader.add_file(dir / file));
    for (std::size_t i = before; i < reader.tensors_.size(); ++i) {
      const auto entry = index->find(reader.tensors_[i].name);
      if (entry == index->end() || entry->second != file)
        return fail(errc::corrupt, "{} holds '{}', but {} does not say so", file,
                    reader.tensors_[i].name, index_file.string());
    }
    if (reader.tensors_.size() - before != count)
      return fail(errc::corrupt, "{} holds {} tensors, but {} lists {}", file,
                  reader.tensors_.size() - before, index_file.string(), count);
  }
  QUERN_CHECK(reader.build_index());
  return reader;
}

expected<std::vector<std::string>> weight_files(const std::filesystem::path& dir) {
  const auto index_file = dir / index_name;
  if (!std::filesystem::exists(index_file)) return std::vector<std::string>{single_name};
  const auto index = read_index(index_file);
  if (!index) return base::in_context(index_file.string(), index.error());
  std::set<std::string> names{index_name};
  for (const auto& [tensor, file] : *index)
    names.insert(file);
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace quern::policy
