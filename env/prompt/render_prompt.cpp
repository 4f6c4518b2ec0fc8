// Fills templates.
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "env/prompt/prompt.hpp"
#include "env/task/lane_on_gpus.hpp"

namespace quern::env {

namespace {

using part_kind = prompt_template::part::kind;

std::string without_last_newline(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string join_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += (text.empty() ? "" : "\n") + line;
  return text;
}

std::string restrictions_text(const prompt_facts& facts) {
  std::vector<std::string> lines;
  for (const std::string& one : facts.restrictions)
    lines.push_back(fmt::format("{}. {}", lines.size() + 1, one));
  return join_lines(lines);
}

std::string baseline_text(const task& what, baseline_choice asked) {
  if (asked == baseline_choice::graph) return "the PyTorch reference under a CUDA graph";
  const bool tuned =
      asked == baseline_choice::reduce_overhead || asked == baseline_choice::max_autotune;
  if (asked == baseline_choice::compile || tuned)
    return fmt::format("the PyTorch reference through torch.compile{}",
                       tuned ? fmt::format("(mode=\"{}\")", name_of(asked)) : "");
  const bool own = asked == baseline_choice::of_task;
  const bool plain = own ? what.baseline == baseline_kind::plain : asked == baseline_choice::plain;
  return plain ? "a plain scalar kernel" : "the PyTorch reference";
}

/// Value of a placeholder that has nothing to do with exemplars. Templates admit no other names.
std::string value_of(std::string_view name, const task& what, const prompt_facts& facts) {
  if (name == "task.name") return what.name;
  if (name == "task.family") return what.family;
  if (name == "task.reference") return without_last_newline(what.reference);
  if (name == "task.prototype") return what.lane->entry(what);
  if (name == "task.workspace")
    return what.lane->optional_entry != nullptr ? what.lane->optional_entry(what) : std::string();
  if (name == "task.signature") return what.body->words(what).signature;
  if (name == "task.sizes") return what.body->words(what).sizes;
  if (name == "task.inputs") return what.body->words(what).inputs;
  if (name == "task.outputs") return what.body->words(what).outputs;
  if (name == "task.tolerance")
    return fmt::format("{} + {} * |expected|", what.tolerance.atol, what.tolerance.rtol);
  if (name == "lane") return std::string(what.lane->name);
  if (name == "language") return std::string(what.lane->language);
  if (name == "fence") return std::string(what.lane->fence);
  if (name == "device_class") return facts.device_class;
  if (name == "baseline") {
    return baseline_text(what, facts.baseline);
  }
  return restrictions_text(facts);
}

std::string exemplar_value(std::string_view name, const exemplar& shown, std::size_t number) {
  if (name == "exemplar.number") return std::to_string(number);
  if (name == "exemplar.score") {
    if (!shown.wrong.empty()) return fmt::format("0.00 ({})", shown.wrong);
    return fmt::format("{}.{:02}", shown.speedup_e2 / 100, shown.speedup_e2 % 100);
  }
  return without_last_newline(shown.code);
}

}  // namespace

std::vector<std::string> default_restrictions(const lane& where, const suite_policy& allowed,
                                              bool on_gpu) {
  std::vector<std::string> rules{
      "The results must equal the reference's within the tolerance, at these sizes and at others "
      "that you do not see, for inputs of any magnitude; a wrong element makes the score 0.",
      "Do all the work in every call: nothing may be kept from one call to the next, neither "
      "results nor anything derived from inputs, and nothing may go on after the call has "
      "returned.",
  };
  const bool other = where.device == device_kind::core && measures_on_gpu(where, on_gpu);
  std::ranges::move(other ? where.on_gpus_too->restrictions(allowed) : where.restrictions(allowed),
                    std::back_inserter(rules));
  return rules;
}

std::string render_prompt(const prompt_template& form, const task& what,
                          std::span<const exemplar> exemplars, const prompt_facts& facts) {
  std::string text;
  const auto& parts = form.parts();
  std::size_t block_begin = 0;
  std::size_t shown = 0;  // exemplar that the block is being written for
  bool hidden = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& part = parts[i];
    switch (part.part_kind) {
      case part_kind::each_exemplar:
        block_begin = i;
        shown = 0;
        hidden = exemplars.empty();
        break;
      case part_kind::no_exemplars:
        hidden = !exemplars.empty();
        break;
      case part_kind::block_end:
        hidden = false;
        if (part.text == "exemplars" && ++shown < exemplars.size()) i = block_begin;
        break;
      case part_kind::text:
        if (!hidden) text += part.text;
        break;
      case part_kind::value:
        if (hidden) break;
        text += part.text.starts_with("exemplar.")
                    ? exemplar_value(part.text, exemplars[shown], shown + 1)
                    : value_of(part.text, what, facts);
        break;
    }
  }
  return text;
}

}  // namespace quern::env
