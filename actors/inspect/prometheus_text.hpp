// Numbers of a run in the text format that Prometheus reads.
#pragma once

#include <string>
#include <string_view>

#include "base/json.hpp"

namespace quern::actors {

/// The media type of the text.
inline constexpr std::string_view prometheus_type = "text/plain; version=0.0.4; charset=utf-8";

/// Each number of `line` (of metrics.jsonl; null: there is none yet) as a gauge with HELP and TYPE.
/// Its name is "quern_" and the keys that lead to it with '_' between; a key that differs, such as
/// a verdict, is a label: quern_batch_verdicts{verdict="ok"}. Also `quern_up`, which is 1 and has
/// the run's name as label. Numbers that this build does not know are there, too, without words.
std::string prometheus_text(std::string_view run_name, const base::ordered_json& line);

}  // namespace quern::actors
