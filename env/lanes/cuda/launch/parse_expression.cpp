// Operators, casts and addresses.
#include <array>

#include <fmt/format.h>

#include "env/lanes/cuda/launch/parser.hpp"

namespace quern::env::plan {
namespace {

struct operator_row {
  std::string_view sign;
  int strength;
  operation kind;
};

constexpr auto operators = std::to_array<operator_row>({
    {"||", 1, operation::logical_or},
    {"&&", 2, operation::logical_and},
    {"|", 3, operation::bit_or},
    {"^", 4, operation::bit_xor},
    {"&", 5, operation::bit_and},
    {"==", 6, operation::equal},
    {"!=", 6, operation::not_equal},
    {"<", 7, operation::less},
    {">", 7, operation::greater},
    {"<=", 7, operation::less_equal},
    {">=", 7, operation::greater_equal},
    {"<<", 8, operation::shift_left},
    {"+", 9, operation::add},
    {"-", 9, operation::subtract},
    {"*", 10, operation::multiply},
    {"/", 10, operation::divide},
    {"%", 10, operation::remainder},
});

const operator_row shift_right_row{">>", 8, operation::shift_right};

}  // namespace

// An expression up to ?:, which binds weakest; no comma and no assignment.
node_id parser::parse_expression() {
  const nested level(*this);
  if (failed()) return 0;
  const node_id condition = parse_binary(1);
  if (!at("?") || failed()) return condition;
  const place where = place_of(peek());
  skip();
  const bool angles = here_.angles;
  here_.angles = false;
  node_id yes = parse_expression();
  here_.angles = angles;
  expect(":", "in ? :");
  node_id no = parse_expression();
  if (failed()) return 0;
  value_type type = node(yes).type;
  const value_type& other = node(no).type;
  if (type.is_number() && other.is_number()) {
    const scalar common =
        type.number == other.number ? type.number : common_of(type.number, other.number);
    yes = to_number(yes, common, conversion::operand);
    no = to_number(no, common, conversion::operand);
    type = number_of(common);
  } else if (pointer_converts(type, other)) {
    type = other;
  } else if (!pointer_converts(other, type) && !(type.is(form::dim3) && other.is(form::dim3))) {
    fail(where, fmt::format("? : of {} and {}: allowed are two of one type", spelling(type),
                            spelling(other)));
    return 0;
  }
  expression made;
  made.kind = operation::choose;
  made.at = where;
  made.type = type;
  made.a = to_condition(condition);
  made.b = yes;
  made.c = no;
  return add(std::move(made));
}

node_id parser::parse_binary(int least) {
  node_id left = parse_unary();
  while (!at_end() && !failed()) {
    const operator_row* row = nullptr;
    if (at(">") && at(">", 1) && peek(1).glued) {
      if (at_launch_end() || here_.angles) break;
      row = &shift_right_row;
    } else if (at(">") && here_.angles) {
      break;
    } else if (peek().kind == token_kind::punctuator) {
      for (const operator_row& one : operators)
        if (peek().text == one.sign) row = &one;
    }
    if (row == nullptr || row->strength < least) break;
    const place where = place_of(peek());
    skip(row == &shift_right_row ? 2 : 1);
    const node_id right = parse_binary(row->strength + 1);
    left = binary(row->kind, left, right, where);
  }
  return left;
}

node_id parser::parse_unary() {
  const nested level(*this);
  if (failed()) return 0;
  const place where = place_of(peek());
  if (peek().kind == token_kind::punctuator && !at_end()) {
    const std::string& sign = peek().text;
    if (sign == "-" || sign == "+" || sign == "!" || sign == "~") {
      const char which = sign[0];
      skip();
      const node_id operand = parse_unary();
      if (which == '!') return unary(operation::logical_not, operand, where);
      if (which == '~') return unary(operation::complement, operand, where);
      if (which == '-') return unary(operation::negate, operand, where);
      if (failed() || !node(operand).type.is_number()) return operand;
      return to_number(operand, promoted(node(operand).type.number), conversion::operand);
    }
    if (sign == "&") return parse_address();
    if (sign == "*") {
      fail(peek(), "found '*': device memory cannot be read on the host");
      return 0;
    }
    if (sign == "++" || sign == "--") {
      fail(peek(), fmt::format("'{}' inside an expression: allowed as a statement", sign));
      return 0;
    }
    if (sign == "(") {
      skip();
      if (starts_type()) {
        const std::size_t begin = here_.cursor;
        type_reading reading;
        // `(float)x` is a cast, `(float(x))` and `(dim3(1))` are not.
        if (read_type(reading) && accept(")")) {
          if (reading.automatic || reading.reference) {
            fail(where, "a cast to auto or to a reference is not in the grammar");
            return 0;
          }
          const node_id operand = parse_unary();
          return parse_cast(reading.type, operand, where);
        }
        if (failed()) return 0;
        here_.cursor = begin;
      }
      const bool angles = here_.angles;
      here_.angles = false;
      const node_id inside = parse_expression();
      here_.angles = angles;
      expect(")", "behind an expression in parentheses");
      return inside;
    }
  }
  return parse_postfix();
}

// &pointer[index]
node_id parser::parse_address() {
  const plan_token& sign = peek();
  skip();
  const node_id pointer = parse_primary();
  if (failed()) return 0;
  if (!at("[") || !node(pointer).type.is_pointer()) {
    fail(sign, "'&': allowed are &pointer[index], and &variable inside void* args[]");
    return 0;
  }
  const place where = place_of(peek());
  skip();
  const bool angles = here_.angles;
  here_.angles = false;
  const node_id index = parse_expression();
  here_.angles = angles;
  expect("]", "behind an index");
  return advance(pointer, index, false, where);
}

node_id parser::parse_postfix() {
  node_id made = parse_primary();
  while (!failed()) {
    if (at("[")) {
      fail(peek(),
           "found '[': device memory cannot be read on the host (allowed: &pointer[index])");
    } else if (at(".") && node(made).type.is(form::dim3)) {
      const place where = place_of(peek());
      skip();
      const bool named = at("x") || at("y") || at("z");
      if (!named) {
        fail(peek(), fmt::format("found {}, allowed: x, y or z", found()));
        break;
      }
      expression member;
      member.kind = operation::member;
      member.at = where;
      member.type = number_of(scalar::unsigned_int);
      member.a = made;
      member.slot = peek().text[0] - 'x';
      skip();
      made = add(std::move(member));
    } else if (at("++") || at("--")) {
      fail(peek(), fmt::format("'{}' inside an expression: allowed as a statement", peek().text));
    } else {
      break;
    }
  }
  return made;
}

node_id parser::parse_cast(const value_type& to, node_id operand, place where) {
  if (failed()) return 0;
  const value_type from = node(operand).type;
  if (to.is_number() && from.is_number()) {
    if (to.number == from.number) return operand;
    const node_id made = to_number(operand, to.number, conversion::written);
    if (!failed()) node(made).at = where;
    return made;
  }
  if (to.is(form::dim3)) return to_dim3(operand, "the operand of a cast");
  if (to.is_pointer() && (from.is_pointer() || from.is(form::null))) {
    expression made;
    made.kind = operation::convert;
    made.at = where;
    made.type = to;
    made.a = operand;
    return add(std::move(made));
  }
  if (from.is_pointer() && to.is_number()) {
    fail(where, "a pointer has no number here: allowed are casts between pointer types");
  } else {
    fail(where, fmt::format("a cast of {} to {}: allowed are casts between numbers and between "
                            "pointer types",
                            spelling(from), spelling(to)));
  }
  return 0;
}

// static_cast<type>(x), reinterpret_cast and const_cast
node_id parser::parse_named_cast() {
  const plan_token& word = peek();
  const bool numbers = word.text == "static_cast";
  skip();
  expect("<", "behind " + word.text);
  type_reading reading;
  if (failed() || !read_type(reading, true)) return 0;
  expect(">", "behind the type of a cast");
  expect("(", "behind the type of a cast");
  const bool angles = here_.angles;
  here_.angles = false;
  const node_id operand = parse_expression();
  here_.angles = angles;
  expect(")", "behind the operand of a cast");
  if (failed()) return 0;
  if (reading.automatic || reading.reference || (!numbers && !reading.type.is_pointer())) {
    fail(word, fmt::format("{} to {}: allowed are pointer types{}", word.text,
                           reading.reference ? "a reference" : spelling(reading.type),
                           numbers ? " and numbers" : ""));
    return 0;
  }
  return parse_cast(reading.type, operand, place_of(word));
}

std::vector<node_id> parser::parse_arguments(std::string_view close) {
  std::vector<node_id> read;
  const bool angles = here_.angles;
  here_.angles = false;
  if (!accept(close)) {
    do {
      read.push_back(parse_expression());
      if (read.size() > plan_limits::parameters)
        fail(peek(), fmt::format("more than {} arguments", plan_limits::parameters));
    } while (!failed() && accept(","));
    if (!failed() && !accept(close))
      fail(peek(), fmt::format("found {}, allowed: an operator, ',' or '{}'", found(), close));
  }
  here_.angles = angles;
  return read;
}

}  // namespace quern::env::plan
