#include "tools/cli/ablate_times.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/log.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

fs::path seconds_file(const fs::path& out) {
  return out / "seconds.json";
}

}  // namespace

std::map<std::string, double> read_seconds(const fs::path& out) {
  std::map<std::string, double> seconds;
  std::error_code ignored;
  if (!fs::exists(seconds_file(out), ignored)) return seconds;
  const auto text = base::read_file(seconds_file(out));
  const auto written = text ? base::parse_json(*text)
                            : base::expected<base::json>(tl::make_unexpected(text.error()));
  if (!written || !written->is_object()) {
    base::log_warn("ablate", "{} cannot be read ({}): times of earlier calls are not known",
                   seconds_file(out).string(),
                   written ? "it is no object" : written.error().message);
    return seconds;
  }
  for (const auto& [run, took] : written->items())
    if (took.is_number()) seconds[run] = took.get<double>();
  return seconds;
}

base::status add_seconds(const fs::path& out, const std::string& run, double more) {
  auto seconds = read_seconds(out);
  std::error_code ignored;
  // A damaged one stays, for whoever can mend it.
  if (seconds.empty() && fs::exists(seconds_file(out), ignored))
    fs::rename(seconds_file(out), out / "seconds.json.damaged", ignored);
  seconds[run] += more;
  QUERN_CHECK(base::make_folders(out));
  return base::write_file_atomic(seconds_file(out), base::dump_pretty(base::json(seconds)) + "\n");
}

}  // namespace quern::tools
