#include "policy/engine/shard_exchange.hpp"

#include <utility>

namespace quern::policy {

shard_exchange::shard_exchange(communicator* group, const catalogue& layout, shard_map shard)
    : group_(group), buckets_(layout.buckets), shard_(std::move(shard)) {}

void shard_exchange::add(base::expected<pending> begun) {
  if (begun) {
    under_way_.push_back(std::move(*begun));
  } else {
    first_error_ = tl::make_unexpected(std::move(begun).error());
  }
}

at::Tensor shard_exchange::part(std::size_t bucket, const at::Tensor& shard) const {
  const element_range range = shard_.ranges[bucket];
  return shard.narrow(0, shard_.begins[bucket], range.end - range.begin);
}

void shard_exchange::reduce(std::size_t bucket, const at::Tensor& gradients,
                            const at::Tensor& shard) {
  if (group_ == nullptr || !first_error_) return;
  const policy::bucket& range = buckets_[bucket];
  add(group_->reduce_scatter(part(bucket, shard), gradients.narrow(0, range.begin, range.size),
                             "gradients of " + range.name));
}

void shard_exchange::follow_reduced() {
  for (pending& one : under_way_)
    if (auto queued = one.follow(); first_error_) first_error_ = std::move(queued);
}

void shard_exchange::all_reduce(const at::Tensor& values, reduction how, std::string_view what,
                                bool now) {
  if (group_ == nullptr || !first_error_) return;
  add(group_->all_reduce(values, how, what));
  if (now && first_error_) first_error_ = under_way_.back().follow();
}

void shard_exchange::gather(std::size_t bucket, const at::Tensor& shard, const at::Tensor& flat,
                            std::string_view what) {
  if (group_ == nullptr || !first_error_) return;
  const policy::bucket& range = buckets_[bucket];
  add(group_->all_gather(flat.narrow(0, range.begin, range.size), part(bucket, shard),
                         std::string(what) + " of " + range.name));
}

void shard_exchange::gather_all(const at::Tensor& shard, const at::Tensor& flat,
                                std::string_view what) {
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    gather(i, shard, flat, what);
}

base::status shard_exchange::settle() {
  base::status ended = std::exchange(first_error_, {});
  for (pending& one : under_way_)
    if (auto result = one.wait(); ended) ended = std::move(result);
  under_way_.clear();
  return ended;
}

}  // namespace quern::policy
