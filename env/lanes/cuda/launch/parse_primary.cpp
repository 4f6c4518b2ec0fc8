// Names, functional casts and calls of library functions.
#include <fmt/format.h>

#include "env/lanes/cuda/launch/parser.hpp"

namespace quern::env::plan {

node_id parser::dim3_of(const std::vector<node_id>& members, place where) {
  if (failed()) return 0;
  if (members.size() == 1 && node(members[0]).type.is(form::dim3)) return members[0];
  if (members.size() > 3) {
    fail(where, fmt::format("dim3 has 3 members, found {}", members.size()));
    return 0;
  }
  const value_type member = number_of(scalar::unsigned_int);
  expression made;
  made.kind = operation::make_dim3;
  made.at = where;
  made.type = plain(form::dim3);
  node_id* const places[3] = {&made.a, &made.b, &made.c};
  for (std::size_t i = 0; i < 3; ++i) {
    const node_id given = i < members.size() ? members[i] : integer(1, where);
    *places[i] = convert(given, member, conversion::implicit, "a member of dim3");
    if (failed()) return 0;
  }
  return add(std::move(made));
}

node_id parser::parse_functional_cast() {
  const plan_token& first = peek();
  type_reading reading;
  if (!read_base_type(reading, false)) return 0;
  const bool braces = at("{");
  if (!braces && !at("(")) {
    fail(peek(), fmt::format("found {}, allowed behind a type in an expression: '('", found()));
    return 0;
  }
  if (reading.automatic || reading.is_static || reading.is_constexpr) {
    fail(first, fmt::format("'{}' inside an expression", first.text));
    return 0;
  }
  skip();
  const std::vector<node_id> given = parse_arguments(braces ? "}" : ")");
  if (failed()) return 0;
  if (reading.type.is(form::dim3)) return dim3_of(given, place_of(first));
  if (given.empty() && reading.type.is_number()) return literal(reading.type, {}, place_of(first));
  if (given.size() != 1) {
    fail(first,
         fmt::format("'{}' of {} values: allowed is one", spelling(reading.type), given.size()));
    return 0;
  }
  return parse_cast(reading.type, given[0], place_of(first));
}

node_id parser::parse_sizeof() {
  const plan_token& word = peek();
  skip();
  expect("(", "behind sizeof");
  if (failed()) return 0;
  if (!starts_type()) {
    fail(peek(), fmt::format("found {}, allowed: sizeof(type)", found()));
    return 0;
  }
  type_reading reading;
  if (!read_type(reading)) return 0;
  expect(")", "behind the type of sizeof");
  if (failed()) return 0;
  const std::uint32_t bytes = reading.automatic ? 0 : size_of(reading.type);
  if (bytes == 0) {
    fail(word, fmt::format("sizeof({}): its size is not known here", spelling(reading.type)));
    return 0;
  }
  value known;
  known.word[0] = bytes;
  return literal(number_of(scalar::unsigned_long), known, place_of(word));
}

// min, max, abs and functions of <cmath>; no_node where the name is none of them.
node_id parser::parse_library_call(const name_path& path, const plan_token& name) {
  if (path.parts.size() != 1) return no_node;
  const std::string& word = path.parts[0];
  const place where = place_of(name);
  const bool least = word == "min";
  here_.cursor = path.behind;
  if (path.standard && word == "numeric_limits") return parse_numeric_limit();
  if (least || word == "max") {
    std::optional<value_type> type;
    if (accept("<")) {
      type_reading reading;
      if (!read_type(reading)) return 0;
      expect(">", "behind a template argument");
      type = reading.type;
    }
    expect("(", "behind a function's name");
    if (failed()) return 0;
    std::vector<node_id> given = parse_arguments(")");
    if (!failed() && given.size() != 2)
      fail(name, fmt::format("'{}' has 2 arguments, found {}", word, given.size()));
    if (failed()) return 0;
    if (type) {
      for (node_id& one : given)
        one = convert(one, *type, conversion::implicit, "an argument");
    }
    return failed() ? 0 : least_or_greatest(least, given[0], given[1], path.standard, where);
  }
  if (!at("(") || !is_mathematics(word)) return no_node;
  skip();
  std::vector<node_id> given = parse_arguments(")");
  if (failed()) return 0;
  if (word == "abs" && given.size() == 1 && node(given[0]).type.is_integer()) {
    const node_id same =
        to_number(given[0], promoted(node(given[0]).type.number), conversion::operand);
    const node_id opposite = unary(operation::negate, same, where);
    return failed() ? 0 : least_or_greatest(false, same, opposite, false, where);
  }
  return mathematics(word == "abs" ? "fabs" : word, std::move(given), where);
}

node_id parser::parse_name() {
  const plan_token& first = peek();
  const name_path path = path_here();
  const bool single = path.parts.size() == 1 && !path.global && !path.standard;
  if (const binding* local = single ? find_name(first.text) : nullptr) {
    skip();
    switch (local->kind) {
      case binding::role::variable: {
        expression made;
        made.kind = operation::variable;
        made.at = place_of(first);
        made.type = local->type;
        made.slot = local->slot;
        return add(std::move(made));
      }
      case binding::role::constant:
        return literal(local->type, local->known, place_of(first));
      default:
        fail(first, fmt::format("'{}' has no value in an expression", first.text));
        return 0;
    }
  }
  if (const declaration* known = entity_here(path)) {
    switch (known->kind) {
      case entity::constant: {
        here_.cursor = path.behind;
        const resolved_constant& constant =
            constant_of(static_cast<std::size_t>(known - unit_.declarations.data()));
        if (failed()) return 0;
        return literal(constant.type, constant.known, place_of(first));
      }
      case entity::function:
        here_.cursor = path.behind;
        return parse_call(*find_entity(path.parts, path.global), first);
      case entity::kernel:
        fail(first, fmt::format("kernel '{}' in an expression: allowed is a launch <<<...>>>",
                                first.text));
        return 0;
      case entity::variable:
        fail(first,
             fmt::format("'{}' is a variable of the file: allowed are constants", first.text));
        return 0;
      default:
        fail(first, fmt::format("'{}' has no value in an expression", first.text));
        return 0;
    }
  }
  if (single) {
    const node_id number = parse_named_number();
    if (number != no_node) return number;
  }
  const std::size_t begin = here_.cursor;
  const node_id library = path.global ? no_node : parse_library_call(path, first);
  if (failed() || library != no_node) return failed() ? 0 : library;
  here_.cursor = begin;
  const std::string whole = text_of(path);
  const bool calls = path.behind < here_.stop && unit_.tokens[path.behind].text == "(";
  fail(first, calls
                  ? fmt::format("a call of '{}': allowed are functions of this file, min, max and "
                                "functions of <cmath>",
                                whole)
                  : fmt::format("'{}' is not known here: allowed are variables, and constants of "
                                "this file",
                                whole));
  return 0;
}

node_id parser::parse_primary() {
  const plan_token& token = peek();
  if (failed()) return 0;
  if (!at_end()) {
    if (token.kind == token_kind::number) return parse_number();
    if (at("(")) return parse_unary();
    if (token.kind == token_kind::identifier || at("::")) {
      if (token.text == "true" || token.text == "false") {
        value known;
        known.word[0] = token.text == "true" ? 1 : 0;
        skip();
        return literal(number_of(scalar::boolean), known, place_of(token));
      }
      if (token.text == "nullptr" || token.text == "NULL") {
        skip();
        return literal(plain(form::null), {}, place_of(token));
      }
      if (token.text == "sizeof") return parse_sizeof();
      if (token.text == "static_cast" || token.text == "reinterpret_cast" ||
          token.text == "const_cast")
        return parse_named_cast();
      if (starts_type()) return parse_functional_cast();
      return parse_name();
    }
  }
  fail(token, fmt::format("found {}, allowed: a number, a name, a cast or '('", found()));
  return 0;
}

}  // namespace quern::env::plan
