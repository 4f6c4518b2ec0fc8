// What a kernel measures against itself.
#include "env/measure/null_distribution.hpp"

#include <algorithm>
#include <cmath>

#include "base/file.hpp"

namespace quern::env {

null_distribution::null_distribution()
    : points_{{1e5, 0.018}, {3e5, 0.016}, {1e6, 0.014}, {1e7, 0.012}} {}

null_distribution null_distribution::of_modules() {
  null_distribution result;
  result.points_ = {{1.5e5, 0.032}, {4e5, 0.02}, {1.2e6, 0.016}, {1e7, 0.014}};
  return result;
}

null_distribution null_distribution::of_gpus() {
  null_distribution result;
  result.points_ = {{7e3, 0.025}, {2.5e4, 0.015}, {7e4, 0.012}, {2e5, 0.004}, {1e6, 0.002}};
  return result;
}

null_distribution null_distribution::of_modules_on_gpus() {
  null_distribution result;
  result.points_ = {{5e4, 0.04}, {2e5, 0.022}, {1e6, 0.016}};
  return result;
}

base::expected<null_distribution> null_distribution::make(std::vector<null_point> points) {
  if (points.empty())
    return base::fail(base::errc::invalid_argument, "a null distribution needs at least one point");
  for (const auto& point : points)
    if (!(point.call_ns > 0) || !(point.p99 >= 0) || !(point.p99 < 1))
      return base::fail(base::errc::invalid_argument,
                        "null distribution: call_ns {} must be positive and p99 {} in [0, 1)",
                        point.call_ns, point.p99);
  std::sort(points.begin(), points.end(),
            [](const auto& a, const auto& b) { return a.call_ns < b.call_ns; });
  null_distribution result;
  result.points_ = std::move(points);
  return result;
}

base::expected<null_distribution> null_distribution::from_json(const base::json& value,
                                                               std::string_view device_class) {
  QUERN_TRY(auto version, base::get<std::int64_t>(value, "quern_null"));
  if (version != 1)
    return base::fail(base::errc::version,
                      "null distribution of version {}, this build knows 1: calibrate again "
                      "(bench_eval, bench_gpu self)",
                      version);
  QUERN_TRY(auto found, base::get<std::string>(value, "device_class"));
  if (found != device_class)
    return base::fail(
        base::errc::conflict,
        "null distribution of device class {}, this is {}: calibrate again (bench_eval, bench_gpu "
        "self)",
        found, device_class);
  const auto list = value.find("points");
  if (list == value.end() || !list->is_array())
    return base::fail(base::errc::invalid_argument, "null distribution: points must be an array");
  std::vector<null_point> points;
  for (const auto& entry : *list) {
    QUERN_TRY(auto call_ns, base::get<std::int64_t>(entry, "call_ns"));
    QUERN_TRY(auto p99, base::get<std::int64_t>(entry, "p99_e9"));
    points.push_back({static_cast<double>(call_ns), static_cast<double>(p99) * 1e-9});
  }
  return make(std::move(points));
}

std::filesystem::path null_distribution::file_of(std::string_view device_class) {
  const auto folder = base::user_cache_folder();
  return folder.empty() ? folder : folder / "null" / (std::string(device_class) + ".json");
}

base::expected<std::optional<null_distribution>> null_distribution::calibrated(
    const std::filesystem::path& file, std::string_view device_class) {
  const auto from = file.empty() ? file_of(device_class) : file;
  std::error_code ignored;
  if (file.empty() && !std::filesystem::exists(from, ignored))
    return std::optional<null_distribution>();
  const auto read = [&]() -> base::expected<null_distribution> {
    QUERN_TRY(const auto text, base::read_file(from, 1U << 20U));
    QUERN_TRY(const auto value, base::parse_json(text));
    return from_json(value, device_class);
  }();
  if (!read)
    return base::fail(read.error().code, "{}: {}; remove it, or calibrate again without it",
                      from.string(), read.error().message);
  return std::optional(*read);
}

base::json null_distribution::to_json(std::string_view device_class) const {
  base::json points = base::json::array();
  for (const auto& point : points_)
    points.push_back(
        {{"call_ns", std::llround(point.call_ns)}, {"p99_e9", std::llround(point.p99 * 1e9)}});
  return {{"quern_null", 1}, {"device_class", device_class}, {"points", points}};
}

double null_distribution::half_width(double call_ns) const {
  if (call_ns <= points_.front().call_ns) return points_.front().p99;
  for (std::size_t i = 1; i < points_.size(); ++i) {
    const auto& a = points_[i - 1];
    const auto& b = points_[i];
    if (call_ns > b.call_ns) continue;
    const double share = std::log(call_ns / a.call_ns) / std::log(b.call_ns / a.call_ns);
    return a.p99 + share * (b.p99 - a.p99);
  }
  return points_.back().p99;
}

}  // namespace quern::env
