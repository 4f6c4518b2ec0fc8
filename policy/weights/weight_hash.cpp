// Element-wise hashes of weights, added up.
#include "policy/weights/weight_hash.hpp"

#include <cstring>

namespace quern::policy {

namespace {

template <class T>
base::hash128 sum_row(base::hash128 seed, std::uint64_t first, std::span<const std::byte> row) {
  base::hash128 sum;
  for (std::size_t i = 0; i < row.size() / sizeof(T); ++i) {
    T bits;
    std::memcpy(&bits, row.data() + i * sizeof(T), sizeof bits);
    sum = add(sum, element_hash(seed, first + i, bits));
  }
  return sum;
}

}  // namespace

base::hash128 tensor_seed(const parameter& parameter, weight_dtype dtype) {
  base::hasher hash;
  hash.add(parameter.name).add(torch_name(dtype));
  for (const std::int64_t extent : parameter.shape)
    hash.add(static_cast<std::uint64_t>(extent));
  return hash.digest();
}

base::hash128 tensor_hash(const catalogue& catalogue, const parameter& parameter,
                          std::span<const std::byte> arena) {
  const auto seed = tensor_seed(parameter, catalogue.dtype);
  const std::size_t size = size_of(catalogue.dtype);
  const std::int64_t whole_columns = parameter.shape.size() == 2 ? parameter.shape[1] : 1;
  const std::size_t row_bytes = static_cast<std::size_t>(parameter.columns()) * size;
  base::hash128 sum;
  for (std::int64_t row = 0; row < parameter.rows(); ++row) {
    const std::int64_t first = (parameter.row_begin + row) * whole_columns + parameter.column_begin;
    const auto offset = static_cast<std::size_t>(parameter.offset + row * parameter.columns());
    const auto bytes = arena.subspan(offset * size, row_bytes);
    const auto index = static_cast<std::uint64_t>(first);
    sum = add(sum, size == 4 ? sum_row<std::uint32_t>(seed, index, bytes)
                             : sum_row<std::uint16_t>(seed, index, bytes));
  }
  return sum;
}

std::vector<base::hash128> tensor_hashes(const catalogue& catalogue,
                                         std::span<const std::byte> arena) {
  std::vector<base::hash128> hashes;
  hashes.reserve(catalogue.parameters.size());
  for (const auto& parameter : catalogue.parameters)
    hashes.push_back(tensor_hash(catalogue, parameter, arena));
  return hashes;
}

base::hash128 weights_hash(const catalogue& catalogue, std::span<const std::byte> arena) {
  base::hash128 sum;
  for (const auto& hash : tensor_hashes(catalogue, arena))
    sum = add(sum, hash);
  return sum;
}

}  // namespace quern::policy
