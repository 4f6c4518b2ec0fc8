// Lists as the ledger's text columns hold them.
#include <fmt/ranges.h>

#include "base/json.hpp"
#include "storage/ledger_sql.hpp"

namespace quern::storage {

std::string segments_text(const std::vector<segment>& segments) {
  std::string text = "[";
  for (const segment& part : segments) {
    fmt::format_to(std::back_inserter(text), "{}[{},{},\"{}\"]", text.size() > 1 ? "," : "",
                   part.first_token, part.version, base::to_hex(part.weights));
  }
  return text + "]";
}

base::expected<std::vector<segment>> parse_segments(std::string_view text) {
  const auto bad = [&] {
    return base::fail(base::errc::corrupt, "run.db: '{}' is not a list of segments",
                      text.substr(0, 80));
  };
  const auto list = base::parse_json(text, 4);
  if (!list || !list->is_array()) return bad();
  std::vector<segment> segments;
  for (const base::json& part : *list) {
    if (!part.is_array() || part.size() != 3 || !part[0].is_number_integer() ||
        !part[1].is_number_integer() || !part[2].is_string()) {
      return bad();
    }
    const auto weights = base::parse_hash(part[2].get_ref<const std::string&>());
    if (!weights) return bad();
    segments.push_back({part[0].get<std::int64_t>(), part[1].get<std::int64_t>(), *weights});
  }
  return segments;
}

std::string ids_text(const std::vector<std::int64_t>& ids) {
  return fmt::format("[{}]", fmt::join(ids, ","));
}

base::expected<std::vector<std::int64_t>> parse_ids(std::string_view text) {
  const auto list = base::parse_json(text, 4);
  std::vector<std::int64_t> ids;
  bool good = list && list->is_array();
  if (good) {
    for (const base::json& id : *list) {
      good = good && id.is_number_integer();
      if (good) ids.push_back(id.get<std::int64_t>());
    }
  }
  if (!good) {
    return base::fail(base::errc::corrupt, "run.db: '{}' is not a list of ids", text.substr(0, 80));
  }
  return ids;
}

}  // namespace quern::storage
