#include "storage/metrics_writer.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/log.hpp"

namespace quern::storage {
namespace {

/// What scalars are drawn over.
bool is_position(std::string_view name) {
  return name == "step" || name == "spent";
}

}  // namespace

base::expected<metrics_writer> metrics_writer::open(const run_paths& paths) {
  QUERN_TRY(auto lines, jsonl_writer::open(paths.metrics()));
  return metrics_writer(std::move(lines), event_writer(paths.tensorboard()));
}

base::status metrics_writer::append(const base::ordered_json& line) {
  QUERN_CHECK(lines_.append(line));
  auto values = numbers_of(line);
  const auto at = std::find_if(values.begin(), values.end(),
                               [](const auto& one) { return is_position(one.name); });
  if (at == values.end()) return {};
  const auto step = static_cast<std::int64_t>(at->value);
  values.erase(at);
  tell(events_.append(step, values, static_cast<double>(base::unix_time_ns()) / 1e9));
  return {};
}

void metrics_writer::tell(const base::status& of_events) {
  if (of_events || std::exchange(told_, true)) return;
  base::log_warn("metrics", "{}; TensorBoard will lack these steps, metrics.jsonl has them",
                 of_events.error().message);
}

base::status metrics_writer::sync() {
  tell(events_.sync());
  return lines_.sync();
}

}  // namespace quern::storage
