// Reference texts, sizes and costs of compositions.
#include "env/grammar/task_maker.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/hash.hpp"
#include "base/text.hpp"
#include "env/grammar/kernel_grammar.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {

namespace {

constexpr std::string_view epsilon = "0.01";

std::string constant_text(float value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string expression(const composition_step& step) {
  switch (step.kind) {
    case step_kind::relu:
      return "torch.relu(h)";
    case step_kind::clip:
      return "torch.clamp(h, -1.0, 1.0)";
    case step_kind::abs:
      return "torch.abs(h)";
    case step_kind::negate:
      return "-h";
    case step_kind::square:
      return "h * h";
    case step_kind::root:
      return "torch.sqrt(torch.abs(h) + 1.0)";
    case step_kind::softsign:
      return "h / (torch.abs(h) + 1.0)";
    case step_kind::sigmoid:
      return "torch.sigmoid(h)";
    case step_kind::tanh:
      return "torch.tanh(h)";
    case step_kind::silu:
      return "h * torch.sigmoid(h)";
    case step_kind::decay:
      return "torch.exp(-torch.abs(h))";
    case step_kind::scale:
      return "h * " + constant_text(step.constant);
    case step_kind::shift:
      return fmt::format("h {} {}", std::signbit(step.constant) ? '-' : '+',
                         constant_text(std::fabs(step.constant)));
    case step_kind::times_row:
      return "h * w";
    case step_kind::plus_row:
      return "h + w";
    case step_kind::times_tensor:
      return "h * t";
    case step_kind::plus_tensor:
      return "h + t";
    case step_kind::max_tensor:
      return "torch.maximum(h, t)";
    case step_kind::centre:
      return "h - torch.mean(h, -1, True)";
    case step_kind::rms:
      return fmt::format("h / torch.sqrt(torch.mean(h * h, -1, True) + {})", epsilon);
    case step_kind::l1:
      return fmt::format("h / (torch.mean(torch.abs(h), -1, True) + {})", epsilon);
    case step_kind::layer_norm:
      return fmt::format("torch.layer_norm(h, [h.size(-1)], None, None, {})", epsilon);
    case step_kind::softmax:
      return "torch.softmax(h, -1)";
    case step_kind::running_sum:
      return "torch.cumsum(h, -1)";
    case step_kind::running_max:
      return "torch.cummax(h, -1)[0]";
    case step_kind::difference:
      return "h - torch.constant_pad_nd(h, [1, -1])";
    case step_kind::smooth:
      return "h + torch.constant_pad_nd(h, [1, -1]) + torch.constant_pad_nd(h, [-1, 1])";
    case step_kind::row_sum:
      return "torch.sum(h, -1)";
    case step_kind::row_max:
      return "torch.amax(h, -1)";
    case step_kind::row_mean:
      return "torch.mean(h, -1)";
    case step_kind::transpose:
      return "torch.t(h).contiguous()";
  }
  return {};
}

/// The step that expression() writes as `text`.
std::optional<composition_step> step_of(std::string_view text) {
  for (int k = 0; k < step_kind_count; ++k) {
    composition_step step{static_cast<step_kind>(k), 0};
    if (has_constant(step.kind)) {
      const bool is_scale = step.kind == step_kind::scale;
      if (!(is_scale ? text.starts_with("h * ")
                     : text.starts_with("h + ") || text.starts_with("h - ")))
        continue;
      const auto parsed =
          parse_composition(fmt::format("{} {}", name_of(step.kind), text.substr(4)));
      if (!parsed) continue;
      step.constant = parsed->steps[0].constant;
      if (text[2] == '-') step.constant = -step.constant;
      return step;
    }
    if (expression(step) == text) return step;
  }
  return {};
}

size_expr expr(const std::string& text) {
  // Only literals of this file come here.
  return size_expr::parse(text).value();
}

}  // namespace

std::string reference_text(const composition& what) {
  std::string text = "def forward(x";
  if (uses_row(what)) text += ", w";
  if (uses_tensor(what)) text += ", t";
  text += "):\n    h = x\n";
  for (const composition_step& step : what.steps)
    text += fmt::format("    h = {}\n", expression(step));
  return text + "    return h\n";
}

base::expected<composition> composition_of_reference(std::string_view reference) {
  composition result;
  const auto lines = base::split(reference, '\n');
  for (const std::string_view raw : lines) {
    const std::string_view line = base::trim(raw);
    if (line.empty() || line.starts_with("def ") || line == "h = x" || line == "return h") continue;
    const auto step = line.starts_with("h = ") ? step_of(line.substr(4)) : std::nullopt;
    if (!step) return base::fail(base::errc::not_found, "the grammar has no line '{}'", line);
    result.steps.push_back(*step);
  }
  QUERN_CHECK(validate(result));
  if (reference_text(result) != reference)
    return base::fail(base::errc::not_found, "not a text that the grammar writes");
  return result;
}

task bare_task(const composition& what) {
  task made;
  made.family = family_of(what);
  auto tensors = std::make_shared<tensor_body>();
  tensors->size_names = {"n", "m"};
  const size_expr n = expr("n");
  const size_expr m = expr("m");
  const auto add = [&](std::string name, std::vector<size_expr> shape) {
    tensors->inputs.push_back({std::move(name), dtype::f32, std::move(shape), {}, {}});
  };
  add("x", {n, m});
  if (uses_row(what)) add("w", {m});
  if (uses_tensor(what)) add("t", {n, m});
  std::vector<size_expr> shape{n, m};
  if (const std::size_t core = structural_index(what); core < what.steps.size()) {
    const step_class group = class_of(what.steps[core].kind);
    if (group == step_class::reduction) shape = {n};
    if (group == step_class::transposition) shape = {m, n};
  }
  tensors->outputs.push_back({"y", dtype::f32, shape});
  made.body = std::move(tensors);
  return made;
}

double plain_us_of(const task_options& options) {
  if (options.plain_us != 0) return options.plain_us;
  return options.lane->grammar()->usual_plain_us();
}

base::expected<task> make_task(const composition& what, const task_options& options) {
  QUERN_CHECK(validate(what));
  return make_task(composition_probe(what), options);
}

base::expected<task> make_task(const composition_probe& probe, const task_options& options) {
  const composition& what = probe.subject();
  const double plain_us = plain_us_of(options);
  if (!(plain_us >= 1 && plain_us <= 1e6))
    return base::fail(base::errc::invalid_argument, "plain_us is {}, it must be from 1 to 1000000",
                      options.plain_us);
  const kernel_grammar& grammar = *options.lane->grammar();
  if (!probe.objection().empty())
    return base::fail(base::errc::invalid_argument, "{} makes no good task: {}", to_text(what),
                      probe.objection());
  const base::hash128 identity = base::xxh128(to_text(what));
  task made = bare_task(what);
  made.name = fmt::format("{}_{}", made.family, base::to_hex(identity).substr(0, 12));
  made.lane = options.lane;
  auto tensors = std::make_shared<tensor_body>(tensors_of(made));
  tensors->sizes = grammar.sizes(what, identity.low, plain_us);
  for (const auto& [rows, columns] : probe_sizes)
    tensors->hidden_sizes.push_back({rows, columns});
  for (input_spec& input : tensors->inputs) {
    const auto mild = composition_probe::operand_distributions();
    input.dists = input.name == "x" ? probe.distributions()
                                    : std::vector<distribution>(mild.begin(), mild.end());
  }
  made.tolerance = probe.limits();
  made.baseline = baseline_kind::plain;
  const bool reduced = tensors->outputs[0].shape.size() == 1;
  std::string bytes = "4*n*m";
  if (uses_tensor(what)) bytes += "+4*n*m";
  if (uses_row(what)) bytes += "+4*m";
  bytes += reduced ? "+4*n" : "+4*n*m";
  tensors->cost = {expr(bytes), expr(fmt::format("{}*n*m", what.steps.size()))};
  made.reference = reference_text(what);
  tensors->plain = grammar.plain(what);
  made.body = std::move(tensors);
  return made;
}

}  // namespace quern::env
