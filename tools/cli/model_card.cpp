#include "tools/cli/model_card.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "actors/config/config_file.hpp"
#include "actors/inspect/sample_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "storage/checkpoint.hpp"
#include "storage/jsonl.hpp"
#include "storage/run_directory.hpp"
#include "tools/page/step_curves.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_figure_steps = 20;
constexpr std::size_t most_report_bytes = 1U << 20U;

/// Series of metrics.jsonl and what they are for people; those that a stage does not have are left
/// out.
constexpr std::pair<std::string_view, std::string_view> card_series[] = {
    {"ok", "share of samples whose kernel is right"},
    {"reward", "mean reward"},
    {"learner.loss", "loss"},
};

/// Up to `version`, so that later steps of a run that went on do not count.
step_curves curves_of(const fs::path& metrics, std::int64_t version) {
  step_curves curves;
  // What cannot be read costs figures, not the model.
  (void)storage::read_jsonl_past_damage(metrics, [&](const base::json& line) -> base::status {
    if (base::get<std::int64_t>(line, "step").value_or(version + 1) <= version) curves.add(line);
    return {};
  });
  return curves;
}

void take_figures(card_facts& facts, const fs::path& metrics, std::int64_t version) {
  const step_curves curves = curves_of(metrics, version);
  const std::int64_t last = curves.last();
  facts.figure_steps = std::min(most_figure_steps, std::max<std::int64_t>(last / 2, 1));
  for (const auto& [series, words] : card_series) {
    card_figure figure{std::string(words), curves.mean(series, 1, facts.figure_steps),
                       curves.mean(series, last - facts.figure_steps + 1, last)};
    if (std::isfinite(figure.first) && std::isfinite(figure.last))
      facts.figures.push_back(std::move(figure));
  }
}

/// Without lines that say where the run lies: whoever is given the policy has not got it.
std::string without_paths(std::string_view report, const fs::path& root) {
  std::string kept;
  for (const std::string_view line : base::split(report, '\n'))
    if (line.find(root.string()) == std::string_view::npos) kept += std::string(line) + "\n";
  while (kept.ends_with("\n\n"))
    kept.pop_back();
  return kept;
}

/// The report is about the last weights: those of an older checkpoint have none.
std::string closing_report_of(const storage::run_paths& paths, std::int64_t version) {
  const auto latest = storage::checkpoint_store(paths.checkpoints()).latest();
  if (!latest || *latest != version) return {};
  const auto report = base::read_file(paths.report(), most_report_bytes);
  return report ? without_paths(*report, paths.root) : "";
}

std::string row(std::string_view name, std::string_view value) {
  return fmt::format("| {} | {} |\n", name, value);
}

std::string run_rows(const card_facts& facts) {
  const actors::run_config& run = *facts.run;
  return row("run", fmt::format("{}, stage {}, seed {}", run.run.name, run.stage, run.run.seed)) +
         row("began with", run.stage == "sft" ? "fresh weights" : run.policy.model) +
         row("lane", run.env.lane) +
         row("prompt template", fmt::format("{} (env/prompts/{}.prompt of Quern)",
                                            run.policy.template_name, run.policy.template_name)) +
         row("longest prompt, completion",
             fmt::format("{}, {} tokens", run.policy.max_prompt_tokens,
                         run.policy.max_new_tokens)) +
         row("temperature of sampling", fmt::format("{}", run.policy.temperature));
}

std::string figures_text(const card_facts& facts) {
  std::string text;
  if (!facts.figures.empty()) {
    text += fmt::format(
        "\n## Figures\n\nMeans over the first {0} and the last {0} of the run, as it trained.\n\n"
        "| figure | first | last |\n|---|---|---|\n",
        actors::counted(facts.figure_steps, "step"));
    for (const card_figure& figure : facts.figures)
      text += fmt::format("| {} | {:.4g} | {:.4g} |\n", figure.name, figure.first, figure.last);
  }
  if (!facts.closing_report.empty())
    text += fmt::format("\n## Closing report of the run\n\n```\n{}```\n", facts.closing_report);
  return text;
}

std::string use_text(const card_facts& facts) {
  const bool chats = facts.format != policy::chat_format::none;
  const std::string ask =
      chats
          ? "inputs = tokenizer.apply_chat_template([{\"role\": \"user\", \"content\": prompt}],\n"
            "    add_generation_prompt=True, return_dict=True, return_tensors=\"pt\")\n"
          : "inputs = tokenizer(prompt, return_tensors=\"pt\")\n";
  return fmt::format(
      "\n## Use\n\n"
      "`quern sample THIS_FOLDER --task TASK{} --n 8 --eval` asks it for kernels of a task and\n"
      "judges them; with `--show-prompt` it prints the prompt. transformers 4 and 5:\n\n"
      "```python\n"
      "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
      "tokenizer = AutoTokenizer.from_pretrained(\"THIS_FOLDER\")\n"
      "model = AutoModelForCausalLM.from_pretrained(\"THIS_FOLDER\")\n"
      "{}"
      "output = model.generate(**inputs, do_sample=True, max_new_tokens={})\n"
      "print(tokenizer.decode(output[0, inputs[\"input_ids\"].shape[1]:]))\n"
      "```\n",
      facts.run ? " --template " + facts.run->policy.template_name : "", ask,
      facts.run ? facts.run->policy.max_new_tokens : 420);
}

}  // namespace

base::expected<card_facts> card_facts_of(const fs::path& model) {
  card_facts facts;
  QUERN_TRY(facts.model, policy::load_model_config(model));
  QUERN_TRY(facts.format, policy::load_chat_format(model));
  const actors::model_origin origin = actors::origin_of(model);
  facts.version = origin.version;
  if (!origin.run) return facts;
  const storage::run_paths paths{*origin.run};
  if (auto config = actors::load_run_config(paths.config(), {})) facts.run = std::move(*config);
  take_figures(facts, paths.metrics(), *origin.version);
  facts.closing_report = closing_report_of(paths, *origin.version);
  return facts;
}

std::string model_card(const card_facts& facts) {
  const policy::model_config& model = facts.model;
  std::string text =
      "---\nlibrary_name: transformers\npipeline_tag: text-generation\n---\n\n# " +
      (facts.run ? facts.run->run.name : std::string("A policy")) +
      (facts.version ? fmt::format(", version {}", *facts.version) : "") +
      "\n\nA language model that writes kernels, written by `quern export` from " +
      (facts.run ? "a checkpoint of a run" : "a folder that is no checkpoint of a run") +
      ".\n\n| | |\n|---|---|\n";
  if (facts.run) text += run_rows(facts);
  if (facts.version) text += row("version", fmt::format("{} (optimiser steps)", *facts.version));
  text +=
      row("model", fmt::format("{}, {} layers of width {}, {} parameters, {}",
                               policy::model_type(model.arch), model.layers, model.hidden_size,
                               policy::parameter_count(model), policy::torch_name(model.dtype)));
  text += row("positions", fmt::format("{}", model.max_positions));
  text += row("chat template", facts.format == policy::chat_format::none
                                   ? "none: a prompt is given as it is"
                                   : policy::name_of(facts.format));
  return text + figures_text(facts) + use_text(facts);
}

}  // namespace quern::tools
