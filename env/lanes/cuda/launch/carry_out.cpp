// Statements: control flow and assignments.
#include <algorithm>

#include <fmt/format.h>

#include "env/lanes/cuda/launch/evaluate.hpp"

namespace quern::env::plan {

evaluator::flow evaluator::sequence(const std::vector<node_id>& children, std::size_t begin,
                                    frame& variables) {
  for (std::size_t i = begin; i < children.size() && !failed_; ++i) {
    const flow then = carry_out(children[i], variables);
    if (then != flow::on) return then;
  }
  return flow::on;
}

evaluator::flow evaluator::loop(const statement& node, frame& variables) {
  bool first = node.kind == action::loop_after;
  while (!failed_) {
    if (++statements_ > plan_limits::statements) {
      fail(node.at, fmt::format("more than {} statements in one call", plan_limits::statements),
           base::errc::exhausted);
    }
    if (!first && node.a != no_node && !truth(node.a, variables)) break;
    first = false;
    const flow then = carry_out(node.first, variables);
    if (then == flow::leave) break;
    if (then == flow::give) return then;
    if (node.second != no_node) carry_out(node.second, variables);
  }
  return flow::on;
}

evaluator::flow evaluator::select(const statement& node, frame& variables) {
  const std::int64_t found = evaluate(node.a, variables).word[0];
  const switch_label* chosen = nullptr;
  for (const switch_label& label : node.labels) {
    if (!label.is_default && label.match == found) {
      chosen = &label;
      break;
    }
    if (label.is_default) chosen = &label;
  }
  if (failed_ || chosen == nullptr) return flow::on;
  const flow then = sequence(node.children, chosen->begin, variables);
  return then == flow::leave ? flow::on : then;
}

void evaluator::set(const statement& node, frame& variables) {
  value made = evaluate(node.a, variables);
  if (failed_) return;
  value& slot = variables.at(static_cast<std::size_t>(node.slot));
  made.set = true;
  if (node.component < 0) {
    slot = made;
  } else {
    slot.word.at(static_cast<std::size_t>(node.component)) = made.word[0];
  }
}

evaluator::flow evaluator::carry_out(node_id id, frame& variables) {
  const statement& node = program_.statements[static_cast<std::size_t>(id)];
  if (++statements_ > plan_limits::statements) {
    fail(node.at, fmt::format("more than {} statements in one call", plan_limits::statements),
         base::errc::exhausted);
  }
  if (depth_ >= plan_limits::depth) {
    fail(node.at, fmt::format("nested deeper than {}", plan_limits::depth), base::errc::exhausted);
  }
  if (failed_) return flow::give;
  ++depth_;
  flow then = flow::on;
  switch (node.kind) {
    case action::block:
      then = sequence(node.children, 0, variables);
      break;
    case action::set:
      set(node, variables);
      break;
    case action::forget:
      variables.at(static_cast<std::size_t>(node.slot)).set = false;
      break;
    case action::evaluate:
      evaluate(node.a, variables);
      break;
    case action::choose:
      if (truth(node.a, variables)) {
        then = carry_out(node.first, variables);
      } else if (node.second != no_node && !failed_) {
        then = carry_out(node.second, variables);
      }
      break;
    case action::loop:
    case action::loop_after:
      then = loop(node, variables);
      break;
    case action::select:
      then = select(node, variables);
      break;
    case action::give:
      if (node.a != no_node) {
        result_ = evaluate(node.a, variables);
        result_.set = true;
      }
      then = flow::give;
      break;
    case action::leave:
      then = flow::leave;
      break;
    case action::next:
      then = flow::next;
      break;
    case action::launch:
      launch(node, variables);
      break;
    case action::fill:
      fill(node, variables);
      break;
    case action::copy:
      copy(node, variables);
      break;
    case action::require:
      require_shared(node, variables);
      break;
  }
  --depth_;
  return failed_ ? flow::give : then;
}

}  // namespace quern::env::plan
