// Typing of expressions as C++ has it: promotions, usual arithmetic conversions, implicit ones.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "env/lanes/cuda/launch/parser.hpp"

namespace quern::env::plan {
namespace {

struct math_row {
  std::string_view name;
  math_function function;
  std::size_t arguments;
};

constexpr auto math_rows = std::to_array<math_row>({
    {"sqrt", math_function::square_root, 1},
    {"rsqrt", math_function::reciprocal_root, 1},
    {"exp", math_function::exponential, 1},
    {"exp2", math_function::exponential2, 1},
    {"log", math_function::logarithm, 1},
    {"log2", math_function::logarithm2, 1},
    {"log10", math_function::logarithm10, 1},
    {"pow", math_function::power, 2},
    {"sin", math_function::sine, 1},
    {"cos", math_function::cosine, 1},
    {"tanh", math_function::hyperbolic_tangent, 1},
    {"fabs", math_function::absolute, 1},
    {"floor", math_function::floor_of, 1},
    {"ceil", math_function::ceiling, 1},
    {"round", math_function::rounded, 1},
    {"trunc", math_function::truncated, 1},
    {"fmin", math_function::lesser, 2},
    {"fmax", math_function::greater, 2},
});

const math_row* math_row_of(std::string_view name) {
  for (const math_row& row : math_rows)
    if (row.name == name) return &row;
  if (name.size() < 2 || name.back() != 'f') return nullptr;
  name.remove_suffix(1);
  for (const math_row& row : math_rows)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace

bool parser::is_mathematics(std::string_view name) {
  return name == "abs" || math_row_of(name) != nullptr;
}

node_id parser::add(expression made) {
  if (program_.expressions.size() + program_.statements.size() >= plan_limits::nodes) {
    fail(made.at, fmt::format("more than {} expressions and statements", plan_limits::nodes));
    return 0;
  }
  const auto taller = [&](node_id child) {
    if (child == no_node) return;
    const expression& below = node(child);
    made.height = std::max(made.height, below.height + 1);
    made.constant = made.constant && below.constant;
  };
  made.constant = made.kind != operation::variable;
  taller(made.a);
  taller(made.b);
  taller(made.c);
  for (const node_id one : made.arguments)
    taller(one);
  if (made.height > plan_limits::nesting)
    fail(made.at, fmt::format("an expression deeper than {}", plan_limits::nesting));
  program_.expressions.push_back(std::move(made));
  return static_cast<node_id>(program_.expressions.size() - 1);
}

node_id parser::add(statement made) {
  if (program_.expressions.size() + program_.statements.size() >= plan_limits::nodes) {
    fail(made.at, fmt::format("more than {} expressions and statements", plan_limits::nodes));
    return 0;
  }
  program_.statements.push_back(std::move(made));
  return static_cast<node_id>(program_.statements.size() - 1);
}

node_id parser::literal(const value_type& type, const value& known, place where) {
  expression made;
  made.at = where;
  made.type = type;
  made.constant_value = known;
  return add(std::move(made));
}

node_id parser::integer(std::int64_t number, place where) {
  value known;
  known.word[0] = number;
  return literal(number_of(scalar::int_type), known, where);
}

bool parser::known_value(node_id id, value& out) {
  if (failed()) return false;
  if (!node(id).constant) {
    fail(node(id).at, "depends on a variable: allowed is a constant");
    return false;
  }
  if (constants_.constant(id, out)) return true;
  fail(constants_.error().at, constants_.error().text);
  return false;
}

node_id parser::to_number(node_id id, scalar type, conversion how) {
  if (failed() || (node(id).type.is_number() && node(id).type.number == type)) return id;
  expression made;
  made.kind = operation::convert;
  made.conversion_kind = how;
  made.at = node(id).at;
  made.type = number_of(type);
  made.a = id;
  return add(std::move(made));
}

node_id parser::to_dim3(node_id id, std::string_view role) {
  if (failed() || node(id).type.is(form::dim3)) return id;
  if (!node(id).type.is_number()) {
    fail(node(id).at,
         fmt::format("{} is {}: allowed are dim3 and numbers", role, spelling(node(id).type)));
    return id;
  }
  return dim3_of({id}, node(id).at);
}

node_id parser::convert(node_id id, const value_type& to, conversion how, std::string_view role) {
  if (failed()) return id;
  const value_type from = node(id).type;
  if (to.is_number() && from.is_number()) return to_number(id, to.number, how);
  if (to.is(form::dim3)) return to_dim3(id, role);
  if (to.is(form::stream) && from.is(form::stream)) return id;
  if (same(from, to) && to.is_pointer()) return id;
  if (pointer_converts(from, to)) {
    expression made;
    made.kind = operation::convert;
    made.at = node(id).at;
    made.type = to;
    made.a = id;
    return add(std::move(made));
  }
  fail(node(id).at, fmt::format("{} is {}, allowed: {}", role, spelling(from), spelling(to)));
  return id;
}

node_id parser::to_condition(node_id id) {
  if (failed()) return id;
  if (!node(id).type.is_number()) {
    fail(node(id).at,
         fmt::format("a condition is {}: allowed are numbers", spelling(node(id).type)));
    return id;
  }
  return to_number(id, scalar::boolean, conversion::written);
}

node_id parser::unary(operation what, node_id operand, place where) {
  if (failed()) return operand;
  const value_type type = node(operand).type;
  const bool floating = type.is_number() && is_floating(type.number);
  if (!type.is_number() || (floating && what == operation::complement)) {
    fail(where, fmt::format("an operand is {}: allowed are {}", spelling(type),
                            what == operation::complement ? "integers" : "numbers"));
    return operand;
  }
  expression made;
  made.kind = what;
  made.at = where;
  if (what == operation::logical_not) {
    made.a = operand;
    made.type = number_of(scalar::boolean);
  } else {
    made.a = to_number(operand, promoted(type.number), conversion::operand);
    made.type = number_of(promoted(type.number));
  }
  return add(std::move(made));
}

node_id parser::advance(node_id pointer, node_id count, bool back, place where) {
  if (failed()) return pointer;
  const value_type type = node(pointer).type;
  if (!node(count).type.is_integer()) {
    fail(node(count).at,
         fmt::format("a pointer moves by integers, found {}", spelling(node(count).type)));
    return pointer;
  }
  const std::uint32_t bytes = size_of(pointee_of(type));
  if (bytes == 0) {
    fail(where, fmt::format("{} cannot be moved: the size of what it points to is not known here",
                            spelling(type)));
    return pointer;
  }
  expression made;
  made.kind = operation::advance;
  made.at = where;
  made.type = type;
  made.a = pointer;
  made.b = to_number(count, scalar::long_int, conversion::implicit);
  made.scale = back ? -static_cast<std::int64_t>(bytes) : static_cast<std::int64_t>(bytes);
  return add(std::move(made));
}

node_id parser::binary(operation what, node_id left, node_id right, place where) {
  if (failed()) return left;
  const value_type l = node(left).type;
  const value_type r = node(right).type;
  if (what == operation::add && l.is_pointer()) return advance(left, right, false, where);
  if (what == operation::add && r.is_pointer()) return advance(right, left, false, where);
  if (what == operation::subtract && l.is_pointer() && !r.is_pointer())
    return advance(left, right, true, where);
  if (!l.is_number() || !r.is_number()) {
    fail(where, fmt::format("operands are {} and {}: allowed are numbers, and pointers plus or "
                            "minus integers",
                            spelling(l), spelling(r)));
    return left;
  }
  expression made;
  made.kind = what;
  made.at = where;
  if (what == operation::logical_and || what == operation::logical_or) {
    made.a = to_condition(left);
    made.b = to_condition(right);
    made.type = number_of(scalar::boolean);
    return add(std::move(made));
  }
  const bool shifts = what == operation::shift_left || what == operation::shift_right;
  const bool integers_only = shifts || what == operation::remainder ||
                             (what >= operation::bit_and && what <= operation::bit_xor);
  if (integers_only && (!l.is_integer() || !r.is_integer())) {
    fail(where,
         fmt::format("operands are {} and {}: allowed are integers", spelling(l), spelling(r)));
    return left;
  }
  const scalar type = shifts ? promoted(l.number) : common_of(l.number, r.number);
  made.a = to_number(left, type, conversion::operand);
  made.b = to_number(right, shifts ? promoted(r.number) : type, conversion::operand);
  made.type = number_of(is_comparison(what) ? scalar::boolean : type);
  return add(std::move(made));
}

// std::min and std::max take two arguments of one type; CUDA's own take also two of one size that
// differ in sign.
node_id parser::least_or_greatest(bool least, node_id left, node_id right, bool standard,
                                  place where) {
  if (failed()) return left;
  const value_type l = node(left).type;
  const value_type r = node(right).type;
  scalar type = l.number;
  bool fits = l.is_number() && r.is_number() && l.number == r.number;
  if (!fits && !standard && l.is_number() && r.is_number()) {
    type = common_of(l.number, r.number);
    fits = (l.is_integer() && r.is_integer() &&
            size_of(promoted(l.number)) == size_of(promoted(r.number))) ||
           (!l.is_integer() && !r.is_integer());
  }
  if (!fits) {
    fail(where,
         fmt::format("{} of {} and {}: allowed are two numbers of one type (cast one, or "
                     "write std::{}<int64_t>(a, b))",
                     least ? "min" : "max", spelling(l), spelling(r), least ? "min" : "max"));
    return left;
  }
  expression made;
  made.kind = least ? operation::minimum : operation::maximum;
  made.at = where;
  made.a = to_number(left, type, conversion::operand);
  made.b = to_number(right, type, conversion::operand);
  made.type = number_of(type);
  return add(std::move(made));
}

node_id parser::mathematics(std::string_view name, std::vector<node_id> arguments, place where) {
  const math_row* row = math_row_of(name);
  if (row == nullptr) return no_node;
  const bool single = row->name != name;
  if (failed()) return 0;
  if (arguments.size() != row->arguments) {
    fail(where,
         fmt::format("'{}' has {} arguments, found {}", name, row->arguments, arguments.size()));
    return 0;
  }
  scalar type = scalar::float_type;
  for (const node_id one : arguments) {
    if (!node(one).type.is_number()) {
      fail(node(one).at, fmt::format("an argument of '{}' is {}: allowed are numbers", name,
                                     spelling(node(one).type)));
      return 0;
    }
    if (!single && node(one).type.number != scalar::float_type) type = scalar::double_type;
  }
  for (node_id& one : arguments)
    one = to_number(one, type, conversion::implicit);
  expression made;
  made.kind = operation::mathematics;
  made.function = row->function;
  made.at = where;
  made.type = number_of(type);
  made.a = arguments[0];
  if (arguments.size() > 1) made.b = arguments[1];
  return add(std::move(made));
}

}  // namespace quern::env::plan
