// Tasks that were prepared, and the reference service behind them.
#include <algorithm>

#include "env/lanes/cpp/cpp_state.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {
namespace {

/// Bounds the index; what inputs and outputs take has a limit of its own.
constexpr std::size_t max_tasks = 48;

}  // namespace

base::expected<reference_service*> prepared_task_cache::service() {
  if (!service_) {
    QUERN_TRY(service_, reference_service::start(program_, mode_));
  }
  return service_.get();
}

base::expected<reference_runner> prepared_task_cache::fresh_reference(const prepared_task& t) {
  base::expected<reference_runner> opened =
      base::fail(base::errc::unavailable, "the reference process was not started");
  for (int attempt = 0; attempt < 2; ++attempt) {
    QUERN_TRY(auto* from, service());
    opened = from->open(t.subject->reference, core_);
    if (opened || opened.error().code != base::errc::unavailable) break;
    renew();  // it died: once more with a fresh one
  }
  return opened;
}

void prepared_task_cache::renew() {
  if (restarts_) service_.reset();
}

base::expected<prepared_task*> prepared_task_cache::get(
    const std::shared_ptr<const task>& subject) {
  const std::string id = task_id(*subject);
  if (const auto at = index_.find(id); at != index_.end()) {
    order_.splice(order_.begin(), order_, at->second);
    return order_.front().get();
  }
  QUERN_TRY(auto instance, instantiate(*subject, tensors_of(*subject).sizes));
  const machine_peak peak = peak_.at(instance.cost_bytes, false);
  base::expected<std::unique_ptr<prepared_task>> prepared;
  for (int attempt = 0; attempt < 2; ++attempt) {
    QUERN_TRY(auto* from, service());
    prepared = prepare_task(subject, *from, core_, input_seed_, peak);
    if (prepared || prepared.error().code != base::errc::unavailable) break;
    renew();  // it died: once more with a fresh one
  }
  if (!prepared) return tl::make_unexpected(prepared.error());
  used_ += (*prepared)->bytes;
  order_.push_front(std::move(*prepared));
  index_[id] = order_.begin();
  while (order_.size() > 1 && (order_.size() > max_tasks || used_ > limit_)) {
    used_ -= order_.back()->bytes;
    index_.erase(order_.back()->id);
    order_.pop_back();
  }
  return order_.front().get();
}

}  // namespace quern::env
