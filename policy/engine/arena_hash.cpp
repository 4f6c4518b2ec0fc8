#include "policy/engine/arena_hash.hpp"

#include <stdexcept>

#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include "policy/engine/device_queue.hpp"
#include "policy/weights/weight_hash.hpp"

namespace quern::policy {

base::hash128 hash_by(const quern_policy_kernels& kernels, const catalogue& layout,
                      const at::Tensor& flat) {
  const bool half = flat.scalar_type() == at::kBFloat16;
  const at::Tensor sums = at::zeros({2}, flat.options().dtype(at::kLong));
  auto* const lanes = static_cast<std::uint64_t*>(sums.mutable_data_ptr());
  const auto* const first = static_cast<const std::byte*>(flat.const_data_ptr());
  for (const parameter& p : layout.parameters) {
    const base::hash128 seed = tensor_seed(p, layout.dtype);
    const std::int64_t whole_columns = p.shape.size() == 2 ? p.shape[1] : 1;
    quern_hashed_part part{};
    part.rows = p.rows();
    part.columns = p.columns();
    part.stride = static_cast<std::uint64_t>(whole_columns);
    part.first = static_cast<std::uint64_t>(p.row_begin * whole_columns + p.column_begin);
    part.seed_low = seed.low;
    part.seed_high = seed.high;
    const auto code =
        kernels.hash_elements(half ? quern_bf16 : quern_f32, part,
                              first + p.offset * static_cast<std::int64_t>(flat.element_size()),
                              lanes, current_stream(flat.device()));
    if (code != 0)
      throw std::runtime_error(fmt::format("kernel hash_elements: {}", kernels.problem(code)));
  }
  const at::Tensor host = sums.cpu();
  const auto* const found = static_cast<const std::uint64_t*>(host.const_data_ptr());
  return {found[1], found[0]};
}

std::optional<base::hash128> hash_on_device(const catalogue& layout, const at::Tensor& flat) {
  if (!flat.is_cuda() || !flat.is_contiguous() ||
      (flat.scalar_type() != at::kFloat && flat.scalar_type() != at::kBFloat16))
    return std::nullopt;
  const quern_policy_kernels* kernels = cuda_policy_kernels_or_null();
  if (kernels == nullptr) return std::nullopt;
  return hash_by(*kernels, layout, flat);
}

}  // namespace quern::policy
