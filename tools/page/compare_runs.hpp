// Several runs side by side: what they came to, their curves and the settings in which they differ.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "tools/page/run_view.hpp"

namespace quern::tools {

/// A row of a comparison: a text for each run, in their order; empty where it has none.
struct compared_row {
  std::string name;
  std::vector<std::string> values;
};

/// A run as a person named it.
struct compared_run {
  std::string name;
  const run_view* view = nullptr;  ///< refreshed; never null
};

/// State, steps, samples, and figures over the first and the last tenth of the steps. Those of
/// samples are empty where the ledger cannot be read.
std::vector<compared_row> compared_figures(const std::vector<compared_run>& runs);

/// Mean of a series ("reward", "ok") in ten stretches of the steps of the longest run.
std::vector<compared_row> compared_curve(const std::vector<compared_run>& runs,
                                         std::string_view series);

/// Keys whose values differ; one of a run whose configuration cannot be read is empty.
std::vector<compared_row> compared_settings(const std::vector<compared_run>& runs);

/// Tables for a terminal, and the remarks of each run. What is damaged is for the caller to tell
/// (run_view::damage). Values of others are printable (base::printable).
std::string compare_text(const std::vector<compared_run>& runs);

/// What the page of a comparison draws.
base::ordered_json compare_json(const std::vector<compared_run>& runs);

}  // namespace quern::tools
