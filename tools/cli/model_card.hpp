// README.md of a policy that `quern export` writes: where its weights come from, how it is asked,
// and what its run measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/policy_folder.hpp"
#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "policy/text/chat.hpp"
#include "policy/text/model_config.hpp"

namespace quern::tools {

/// A figure over steps of the run: means over its first ones, and over the last ones before the
/// weights were written.
struct card_figure {
  std::string name;
  double first = 0, last = 0;
};

struct card_facts {
  policy::model_config model;
  policy::chat_format format = policy::chat_format::none;
  std::optional<std::int64_t> version;
  std::optional<actors::run_config> run;  ///< none: the policy is of no run
  std::int64_t figure_steps = 0;          ///< steps that each mean is over
  std::vector<card_figure> figures;
  std::string closing_report;  ///< of a run that ended with these weights; else empty
};

/// Of a model as `find_policy` finds it. What a run no longer has is left out. Errors: config.json
/// or the chat template cannot be read.
base::expected<card_facts> card_facts_of(const std::filesystem::path& model);

/// Markdown, with the header that Hugging Face reads. Pure.
std::string model_card(const card_facts& facts);

}  // namespace quern::tools
