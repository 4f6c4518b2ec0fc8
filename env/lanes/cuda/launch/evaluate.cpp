// Values of expressions.
#include "env/lanes/cuda/launch/evaluate.hpp"

#include <cmath>

#include <fmt/format.h>

namespace quern::env::plan {
namespace {

template <class Real>
Real mathematics(math_function which, Real a, Real b) {
  switch (which) {
    case math_function::square_root:
      return std::sqrt(a);
    case math_function::reciprocal_root:
      return Real{1} / std::sqrt(a);
    case math_function::exponential:
      return std::exp(a);
    case math_function::exponential2:
      return std::exp2(a);
    case math_function::logarithm:
      return std::log(a);
    case math_function::logarithm2:
      return std::log2(a);
    case math_function::logarithm10:
      return std::log10(a);
    case math_function::power:
      return std::pow(a, b);
    case math_function::sine:
      return std::sin(a);
    case math_function::cosine:
      return std::cos(a);
    case math_function::hyperbolic_tangent:
      return std::tanh(a);
    case math_function::absolute:
      return std::fabs(a);
    case math_function::floor_of:
      return std::floor(a);
    case math_function::ceiling:
      return std::ceil(a);
    case math_function::rounded:
      return std::round(a);
    case math_function::truncated:
      return std::trunc(a);
    case math_function::lesser:
      return std::fmin(a, b);
    case math_function::greater:
      return std::fmax(a, b);
  }
  return a;
}

}  // namespace

void evaluator::fail(place at, std::string text, base::errc code) {
  if (failed_) return;
  failed_ = true;
  error_ = {code, at, std::move(text)};
}

bool evaluator::constant(node_id expression, value& out) {
  failed_ = false;
  out = evaluate(expression, {});
  return !failed_;
}

bool evaluator::run(node_id which, std::span<const value> arguments, value& out) {
  failed_ = false;
  const function& what = program_.functions[static_cast<std::size_t>(which)];
  frame variables(arguments.begin(), arguments.end());
  value unset;
  unset.set = false;
  variables.resize(std::max(what.slots, arguments.size()), unset);
  result_ = unset;
  if (what.body != no_node) carry_out(what.body, variables);
  if (!failed_ && !what.result.is(form::nothing) && !result_.set) {
    fail({}, fmt::format("function '{}' ends without a return", what.name));
  }
  out = result_;
  return !failed_;
}

bool evaluator::truth(node_id id, const frame& variables) {
  return evaluate(id, variables).word[0] != 0 && !failed_;
}

value evaluator::evaluate(node_id id, const frame& variables) {
  const expression& node = program_.expressions[static_cast<std::size_t>(id)];
  if (++operations_ > plan_limits::operations) {
    fail(node.at, fmt::format("more than {} operations", plan_limits::operations),
         base::errc::exhausted);
  }
  if (depth_ >= plan_limits::depth) {
    fail(node.at, fmt::format("nested deeper than {}", plan_limits::depth), base::errc::exhausted);
  }
  if (failed_) return {};
  ++depth_;
  value out;
  switch (node.kind) {
    case operation::literal:
      out = node.constant_value;
      break;
    case operation::variable:
      out = variables.at(static_cast<std::size_t>(node.slot));
      if (!out.set) fail(node.at, "a variable is read before it has a value");
      break;
    case operation::member:
      out.word[0] = evaluate(node.a, variables).word.at(static_cast<std::size_t>(node.slot));
      break;
    case operation::logical_and:
      out.word[0] = truth(node.a, variables) && truth(node.b, variables) ? 1 : 0;
      break;
    case operation::logical_or:
      out.word[0] = truth(node.a, variables) || truth(node.b, variables) ? 1 : 0;
      break;
    case operation::choose:
      out = evaluate(truth(node.a, variables) ? node.b : node.c, variables);
      break;
    case operation::make_dim3:
      out.word = {evaluate(node.a, variables).word[0], evaluate(node.b, variables).word[0],
                  evaluate(node.c, variables).word[0]};
      break;
    case operation::call:
      out = evaluate_call(node, variables);
      break;
    case operation::mathematics:
      out = evaluate_mathematics(node, variables);
      break;
    case operation::advance: {
      out = evaluate(node.a, variables);
      std::int64_t bytes = 0;
      const value count = evaluate(node.b, variables);
      if (__builtin_mul_overflow(count.word[0], node.scale, &bytes) ||
          __builtin_add_overflow(out.word[0], bytes, &out.word[0])) {
        fail(node.at, fmt::format("a pointer moved by {} elements of {} bytes does not fit int64_t",
                                  count.word[0], std::abs(node.scale)));
      }
      break;
    }
    case operation::convert: {
      const value in = evaluate(node.a, variables);
      out = in;
      const value_type& from = program_.expressions[static_cast<std::size_t>(node.a)].type;
      if (!node.type.is_number() || failed_) break;
      if (fault wrong =
              convert_number(from.number, node.type.number, node.conversion_kind, in, out);
          !wrong.empty())
        fail(node.at, std::move(wrong));
      break;
    }
    case operation::negate:
    case operation::complement:
    case operation::logical_not: {
      const value in = evaluate(node.a, variables);
      const value_type& type = program_.expressions[static_cast<std::size_t>(node.a)].type;
      if (failed_) break;
      if (fault wrong = apply_unary(node.kind, type.number, in, out); !wrong.empty())
        fail(node.at, std::move(wrong));
      break;
    }
    default:
      out = evaluate_binary(node, variables);
  }
  --depth_;
  return out;
}

value evaluator::evaluate_binary(const expression& node, const frame& variables) {
  const value left = evaluate(node.a, variables);
  const value right = evaluate(node.b, variables);
  value out;
  if (failed_) return out;
  const value_type& type = program_.expressions[static_cast<std::size_t>(node.a)].type;
  const value_type& right_type = program_.expressions[static_cast<std::size_t>(node.b)].type;
  if (fault wrong = apply_binary(node.kind, type.number, left, right_type.number, right, out);
      !wrong.empty())
    fail(node.at, std::move(wrong));
  return out;
}

value evaluator::evaluate_mathematics(const expression& node, const frame& variables) {
  const value a = evaluate(node.a, variables);
  const value b = node.b == no_node ? value{} : evaluate(node.b, variables);
  value out;
  if (node.type.number == scalar::float_type) {
    out.real = mathematics(node.function, static_cast<float>(a.real), static_cast<float>(b.real));
  } else {
    out.real = mathematics(node.function, a.real, b.real);
  }
  return out;
}

value evaluator::evaluate_call(const expression& node, const frame& variables) {
  const function& what = program_.functions[static_cast<std::size_t>(node.slot)];
  value unset;
  unset.set = false;
  frame inner;
  inner.reserve(what.slots);
  for (const node_id one : node.arguments)
    inner.push_back(evaluate(one, variables));
  inner.resize(std::max(what.slots, inner.size()), unset);
  if (failed_ || what.body == no_node) return {};
  const value outer_result = result_;
  result_ = unset;
  carry_out(what.body, inner);
  value out = result_;
  result_ = outer_result;
  if (!failed_ && !what.result.is(form::nothing) && !out.set) {
    fail(node.at, fmt::format("function '{}' ends without a return", what.name));
  }
  out.set = true;
  return out;
}

}  // namespace quern::env::plan
