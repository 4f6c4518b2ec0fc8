// Declarations of variables and assignments to them.
#include <array>

#include <fmt/format.h>

#include "env/lanes/cuda/launch/parser.hpp"

namespace quern::env::plan {
namespace {

struct assignment_row {
  std::string_view sign;
  operation kind;
};

constexpr auto assignment_rows = std::to_array<assignment_row>({
    {"+=", operation::add},
    {"-=", operation::subtract},
    {"*=", operation::multiply},
    {"/=", operation::divide},
    {"%=", operation::remainder},
    {"<<=", operation::shift_left},
    {">>=", operation::shift_right},
    {"&=", operation::bit_and},
    {"|=", operation::bit_or},
    {"^=", operation::bit_xor},
});

}  // namespace

std::int32_t parser::new_slot() {
  function& own = program_.functions[static_cast<std::size_t>(here_.function)];
  return static_cast<std::int32_t>(own.slots++);
}

node_id parser::parse_local_alias() {
  const plan_token& word = peek();
  statement made;
  made.at = place_of(word);
  skip();
  if (!at_identifier() || !at("=", 1) || known_type(peek().text)) {
    fail(word, "'using': allowed is using Name = type;");
    return 0;
  }
  binding alias;
  const plan_token& name = peek();
  alias.name = name.text;
  alias.kind = binding::role::type;
  skip(2);
  type_reading reading;
  if (!read_type(reading)) return 0;
  expect(";", "behind using");
  alias.type = reading.type;
  return bind(std::move(alias), name) ? add(std::move(made)) : 0;
}

node_id parser::parse_declaration() {
  const plan_token& first = peek();
  type_reading base;
  if (!read_base_type(base, false)) return 0;
  statement all;
  all.at = place_of(first);
  do {
    type_reading reading = base;
    read_stars(reading);
    if (reading.reference) {
      fail(first, "a reference: allowed are variables by value");
      return 0;
    }
    if (!at_identifier()) {
      fail(peek(), fmt::format("found {}, allowed: the name of a variable", found()));
      return 0;
    }
    if (at("[", 1)) {
      all.children.push_back(parse_argument_array(first));
    } else {
      all.children.push_back(parse_declarator(reading));
    }
  } while (!failed() && accept(","));
  expect(";", "behind a declaration");
  return add(std::move(all));
}

// `= x`, `(x)`, `{x}` or nothing; no_node for nothing.
node_id parser::parse_initialiser(const type_reading& reading, const plan_token& name) {
  const bool dimensions = reading.type.is(form::dim3) && !reading.automatic;
  if (at("=")) {
    skip();
    if (!at("{")) return parse_expression();
  }
  if (!at("(") && !at("{")) return no_node;
  const place where = place_of(peek());
  const bool braces = at("{");
  skip();
  const std::vector<node_id> given = parse_arguments(braces ? "}" : ")");
  if (failed()) return 0;
  if (dimensions) return dim3_of(given, where);
  if (given.empty() && braces && reading.type.is_number() && !reading.automatic)
    return literal(reading.type, {}, where);
  if (given.size() != 1) {
    fail(name,
         fmt::format("'{}' is initialised by {} values: allowed is one", name.text, given.size()));
    return 0;
  }
  return given[0];
}

node_id parser::parse_declarator(type_reading reading) {
  const plan_token& name = peek();
  skip();
  node_id initial = parse_initialiser(reading, name);
  if (failed()) return 0;
  if (reading.automatic) {
    if (initial == no_node) {
      fail(name, fmt::format("'{}' is auto without a value", name.text));
      return 0;
    }
    const value_type found_type = node(initial).type;
    if (reading.type.stars > 0 && !found_type.is_pointer()) {
      fail(name, fmt::format("'{}' is auto*, its value is {}", name.text, spelling(found_type)));
      return 0;
    }
    reading.type = found_type;
  }
  const value_type& type = reading.type;
  const bool allowed = type.is_number() || type.is_pointer() || type.is(form::dim3);
  if (!allowed) {
    fail(name, fmt::format("'{}' is {}: allowed are numbers, pointers and dim3", name.text,
                           spelling(type)));
    return 0;
  }
  if (initial == no_node && type.is(form::dim3)) initial = dim3_of({}, place_of(name));
  if (initial == no_node && (reading.fixed || reading.is_static)) {
    fail(name, fmt::format("'{}' is constant without a value", name.text));
    return 0;
  }
  if (initial != no_node)
    initial = convert(initial, type, conversion::implicit, fmt::format("'{}'", name.text));
  return failed() ? 0 : declare(name, reading, initial);
}

node_id parser::declare(const plan_token& name, const type_reading& reading, node_id initial) {
  statement made;
  made.at = place_of(name);
  binding one;
  one.name = name.text;
  one.type = reading.type;
  if (one.type.stars == 0) one.type.constant = false;
  one.fixed = reading.fixed;
  const bool constant = initial != no_node && node(initial).constant && one.type.is_number();
  if (reading.is_static && !(reading.fixed && constant)) {
    fail(name, fmt::format("'{}' is static: allowed are static constants", name.text));
    return 0;
  }
  if (reading.is_constexpr && !constant && !one.type.is(form::dim3)) {
    fail(name, fmt::format("'{}' is constexpr, but its value is no constant", name.text));
    return 0;
  }
  if (reading.fixed && constant) {
    one.kind = binding::role::constant;
    if (!known_value(initial, one.known)) return 0;
    return bind(std::move(one), name) ? add(std::move(made)) : 0;
  }
  one.slot = new_slot();
  made.slot = one.slot;
  made.kind = initial == no_node ? action::forget : action::set;
  made.a = initial;
  return bind(std::move(one), name) ? add(std::move(made)) : 0;
}

// void* args[] = {&a, (void*)&b};
node_id parser::parse_argument_array(const plan_token& first) {
  binding made;
  made.name = peek().text;
  made.kind = binding::role::arguments;
  made.type = plain(form::arguments);
  const plan_token& name = peek();
  const bool is_void = here_.cursor >= 2 && unit_.tokens[here_.cursor - 1].text == "*" &&
                       unit_.tokens[here_.cursor - 2].text == "void";
  if (!is_void) {
    fail(first, "an array: allowed is void* args[] = {&a, &b} for a cooperative launch");
    return 0;
  }
  skip(2);
  if (peek().kind == token_kind::number) skip();
  expect("]", "behind void* " + name.text + "[");
  accept("=");
  expect("{", "behind void* " + name.text + "[]");
  while (!failed() && !at("}")) {
    if (at("(") && at("void", 1) && at("*", 2) && at(")", 3)) skip(4);
    expect("&", "inside void* " + name.text + "[]");
    const binding* target = at_identifier() ? find_name(peek().text) : nullptr;
    if (failed() || target == nullptr || target->kind == binding::role::type ||
        target->kind == binding::role::arguments) {
      fail(peek(), fmt::format("found {}, allowed: the name of a variable", found()));
      return 0;
    }
    made.targets.push_back(parse_name());
    if (!accept(",")) break;
    if (made.targets.size() > plan_limits::parameters)
      fail(peek(), fmt::format("more than {} arguments", plan_limits::parameters));
  }
  expect("}", "behind void* " + name.text + "[]");
  if (failed() || !bind(std::move(made), name)) return 0;
  statement nothing;
  nothing.at = place_of(name);
  return add(std::move(nothing));
}

// x = e, x += e, x.y = e, ++x, x++: no semicolon.
node_id parser::parse_assignment() {
  const plan_token& first = peek();
  const bool before = at("++") || at("--");
  bool up = at("++");
  if (before) skip();
  binding* target = at_identifier() ? find_name(peek().text) : nullptr;
  if (target == nullptr) {
    fail(peek(), fmt::format("found {}, allowed: a variable of this function", found()));
    return 0;
  }
  const plan_token& name = peek();
  if (target->kind != binding::role::variable || target->fixed) {
    fail(name, fmt::format("'{}' is constant: it cannot be assigned", name.text));
    return 0;
  }
  expression variable;
  variable.kind = operation::variable;
  variable.at = place_of(name);
  variable.type = target->type;
  variable.slot = target->slot;
  statement made;
  made.kind = action::set;
  made.at = place_of(first);
  made.slot = target->slot;
  skip();
  node_id current = add(std::move(variable));
  if (at("[")) {
    fail(peek(), "found '[': device memory cannot be written on the host");
    return 0;
  }
  if (at(".") && node(current).type.is(form::dim3)) {
    skip();
    if (!at("x") && !at("y") && !at("z")) {
      fail(peek(), fmt::format("found {}, allowed: x, y or z", found()));
      return 0;
    }
    made.component = peek().text[0] - 'x';
    expression member;
    member.kind = operation::member;
    member.at = place_of(peek());
    member.type = number_of(scalar::unsigned_int);
    member.a = current;
    member.slot = made.component;
    skip();
    current = add(std::move(member));
  }
  if (failed()) return 0;
  const value_type type = node(current).type;
  node_id result = no_node;
  const plan_token& sign = peek();
  if (before || at("++") || at("--")) {
    up = before ? up : at("++");
    if (!before) skip();
    if (type.is_number() && type.number == scalar::boolean) {
      fail(sign, "++ and -- of a bool");
      return 0;
    }
    result = binary(up ? operation::add : operation::subtract, current, integer(1, place_of(sign)),
                    place_of(sign));
  } else if (accept("=")) {
    if (at("{")) {
      fail(peek(), "found '{', allowed behind '=': an expression");
      return 0;
    }
    result = parse_expression();
  } else {
    for (const assignment_row& row : assignment_rows) {
      if (!at(row.sign)) continue;
      skip();
      result = binary(row.kind, current, parse_expression(), place_of(sign));
      break;
    }
  }
  if (result == no_node) {
    fail(sign, fmt::format("found {}, allowed behind a variable: =, +=, -=, *=, /=, %=, <<=, >>=, "
                           "&=, |=, ^=, ++ or --",
                           found()));
    return 0;
  }
  made.a = convert(result, type, conversion::implicit, fmt::format("'{}'", name.text));
  return add(std::move(made));
}

}  // namespace quern::env::plan
