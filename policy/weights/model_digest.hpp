// By what content a model's folder is known again, without reading all of a large one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"

namespace quern::policy {

/// How much of a file is read.
struct digest_extent {
  std::uint64_t whole = std::uint64_t{256} << 20U;  ///< bytes up to which a file is read whole
  std::uint64_t first = std::uint64_t{1} << 20U;    ///< bytes at the begin of a larger one
  std::uint64_t block = std::uint64_t{64} << 10U;   ///< bytes of each block of a larger one
  std::uint64_t blocks = 256;                       ///< how many of them, at least 2
};

/// One file of a model's folder, as it is compared.
struct model_file {
  std::string name;        ///< within the folder
  std::uint64_t size = 0;  ///< bytes
  base::hash128 digest;    ///< as of `digest_file`
  friend bool operator==(const model_file&, const model_file&) = default;
};

/// Of a file's size and content. A file of up to `extent.whole` bytes counts whole. Of a larger one
/// count the size, the first `extent.first` bytes (the header of a safetensors file), and
/// `extent.blocks` blocks at equal distances, the first at the begin and the last at the end. So
/// other training of the same weights is told, but a change that lies between two blocks of a large
/// file is not: with the defaults 2 % of a shard of 1 GB are read. Follows links. Errors: of the
/// system, naming the file.
base::expected<base::hash128> digest_file(const std::filesystem::path& file,
                                          const digest_extent& extent = {});

/// The files of a model's folder that Quern reads, sorted by name: weights (with the index that
/// lists them), config.json, generation_config.json, tokenizer.json, tokenizer_config.json and
/// chat_template.jinja, those that are there. Others, such as README.md, do not count. Errors: no
/// weights, an index that is damaged, a file that cannot be read.
base::expected<std::vector<model_file>> digest_model(const std::filesystem::path& folder,
                                                     const digest_extent& extent = {});

}  // namespace quern::policy
