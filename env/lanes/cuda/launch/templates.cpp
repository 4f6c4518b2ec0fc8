// Arguments of templates: written, deduced, by default.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "env/lanes/cuda/launch/parser.hpp"

namespace quern::env::plan {
namespace {

// The name that a type parameter has while it is not known; no C++ name begins so.
std::string open_name(std::string_view parameter) {
  return "?" + std::string(parameter);
}

// A literal that C++ reads back with the same type.
std::string literal_text(scalar type, const value& what) {
  std::string text = to_text(type, what);
  if (type == scalar::unsigned_int) text += "u";
  if (type == scalar::unsigned_long) text += "ul";
  if (type == scalar::unsigned_long_long) text += "ull";
  return text;
}

}  // namespace

std::vector<parser::template_parameter> parser::template_parameters(const declaration& of) {
  std::vector<template_parameter> read;
  elsewhere there(*this, of.template_parameters, of.path);
  while (!at_end() && !failed()) {
    template_parameter one;
    const plan_token& first = peek();
    one.is_type = at("typename") || at("class");
    if (at("template") || at("...", 1) || at("...", 2)) {
      fail(first, fmt::format("template parameters of '{}': allowed are types and values, no packs "
                              "and no templates",
                              of.name));
      break;
    }
    // The last name before '=', ',' or the end.
    std::size_t end = here_.cursor;
    int depth = 0;
    for (; end < here_.stop; ++end) {
      const std::string& text = unit_.tokens[end].text;
      if (depth == 0 && (text == "," || text == "=")) break;
      if (text == "(" || text == "<" || text == "[" || text == "{") ++depth;
      if (text == ")" || text == ">" || text == "]" || text == "}") --depth;
    }
    if (end > here_.cursor + 1 && unit_.tokens[end - 1].kind == token_kind::identifier)
      one.name = unit_.tokens[end - 1].text;
    // `typename T::type = x` is a value; such parameters stay unknown by their name alone.
    if (one.is_type && known_type(one.name))
      fail(first, fmt::format("'{}' is declared anew", one.name));
    here_.cursor = end;
    if (accept("=")) {
      one.has_default = true;
      one.standard.first = here_.cursor;
      depth = 0;
      for (; !at_end(); skip()) {
        const std::string& text = peek().text;
        if (depth == 0 && text == ",") break;
        if (text == "(" || text == "<" || text == "[" || text == "{") ++depth;
        if (text == ")" || text == ">" || text == "]" || text == "}") --depth;
      }
      one.standard.last = here_.cursor;
    }
    read.push_back(std::move(one));
    if (!at_end()) expect(",", "between template parameters");
    if (read.size() > plan_limits::parameters)
      fail(first, fmt::format("more than {} template parameters", plan_limits::parameters));
  }
  if (failed()) read.clear();
  return read;
}

// At one argument: a type, a number, or the name of something at namespace scope.
template_argument parser::parse_template_argument(bool is_type) {
  template_argument made;
  made.given = true;
  made.is_type = is_type;
  if (is_type) {
    type_reading reading;
    if (!read_type(reading, true)) return made;
    if (reading.automatic || reading.reference) {
      fail(peek(), "a template argument is auto or a reference");
      return made;
    }
    made.type = reading.type;
    made.text = spelling(made.type);
    return made;
  }
  // A name alone stays a name: the device source has what it means.
  const name_path path = path_here();
  const bool alone = !path.parts.empty() && path.behind <= here_.stop &&
                     (path.behind == here_.stop || unit_.tokens[path.behind].text == "," ||
                      unit_.tokens[path.behind].text == ">");
  const binding* local =
      alone && path.parts.size() == 1 && !path.global ? find_name(path.parts[0]) : nullptr;
  if (local != nullptr && local->kind == binding::role::unknown) {
    made.text = local->text;
    skip();
    return made;
  }
  const declaration* named = alone ? entity_here(path) : nullptr;
  if (named != nullptr && (named->kind == entity::constant || named->kind == entity::function)) {
    made.text = named->qualified;
    if (named->kind == entity::constant) {
      // Its value is used where it can be had.
      const auto index = static_cast<std::size_t>(named - unit_.declarations.data());
      const resolved_constant& constant = constant_of(index);
      if (failed()) return made;
      made.known = true;
      made.type = constant.type;
      made.number = constant.known;
    }
    here_.cursor = path.behind;
    return made;
  }
  if (alone && named == nullptr && path.parts.size() > 1 && !path.standard) {
    std::vector<std::string> outer(path.parts.begin(), path.parts.end() - 1);
    const auto* indices = find_entity(outer, path.global);
    if (indices != nullptr && unit_.declarations[indices->front()].kind == entity::type) {
      made.text = unit_.declarations[indices->front()].qualified + "::" + path.parts.back();
      here_.cursor = path.behind;  // an enumerator or a static member
      return made;
    }
  }
  const bool angles = here_.angles;
  here_.angles = true;
  const plan_token& first = peek();
  const node_id id = parse_expression();
  here_.angles = angles;
  if (failed()) return made;
  if (!node(id).type.is_integer()) {
    fail(first, fmt::format("a template argument is {}: allowed are integers and types",
                            spelling(node(id).type)));
    return made;
  }
  if (!known_value(id, made.number)) return made;
  made.known = true;
  made.type = node(id).type;
  made.text = literal_text(made.type.number, made.number);
  return made;
}

// <a, b> at the cursor.
std::vector<template_argument> parser::parse_template_arguments(const declaration& of) {
  std::vector<template_argument> read;
  const plan_token& open = peek();
  if (!of.is_template) {
    fail(open, fmt::format("'{}' is no template", of.name));
    return read;
  }
  const std::vector<template_parameter> parameters = template_parameters(of);
  expect("<", "behind a template's name");
  while (!failed() && !at(">")) {
    if (read.size() >= parameters.size()) {
      fail(peek(), fmt::format("'{}' has {} template parameters", of.name, parameters.size()));
      break;
    }
    const template_parameter& wanted = parameters[read.size()];
    read.push_back(parse_template_argument(wanted.is_type));
    read.back().name = wanted.name;
    if (!accept(",")) break;
  }
  expect(">", "behind template arguments");
  return read;
}

std::vector<parser::binding> parser::bindings_of(const std::vector<template_argument>& arguments) {
  std::vector<binding> made;
  for (const template_argument& one : arguments) {
    if (one.name.empty()) continue;
    binding bound;
    bound.name = one.name;
    bound.fixed = true;
    bound.type = one.type;
    bound.known = one.number;
    bound.text = one.text;
    bound.kind = one.is_type ? binding::role::type
                             : (one.known ? binding::role::constant : binding::role::unknown);
    made.push_back(std::move(bound));
  }
  return made;
}

// Types that stand behind pointers, or alone, in the parameters.
void parser::deduce(const declaration& of, std::vector<template_argument>& arguments,
                    const std::vector<template_parameter>& parameters,
                    const std::vector<node_id>& call) {
  std::vector<template_argument> open = arguments;
  for (std::size_t i = arguments.size(); i < parameters.size(); ++i) {
    template_argument one;
    one.name = parameters[i].name;
    one.is_type = parameters[i].is_type;
    one.type = plain(form::opaque);
    one.type.name = open_name(one.name);
    open.push_back(one);
    arguments.push_back(std::move(one));
  }
  std::vector<binding> aside = std::move(here_.names);
  here_.names = bindings_of(open);
  const std::vector<parameter> declared = read_parameters(of, true);
  here_.names = std::move(aside);
  for (std::size_t i = 0; i < declared.size() && i < call.size() && !failed(); ++i) {
    const value_type& pattern = declared[i].type;
    value_type type = node(call[i]).type;
    if (pattern.base != form::opaque || pattern.name.substr(0, 1) != "?") continue;
    if (pattern.stars > 0 && !type.is_pointer()) continue;
    if (pattern.stars > type.stars) continue;
    for (int star = 0; star < pattern.stars; ++star)
      type = pointee_of(type);
    if (pattern.constant) type.constant = false;
    for (template_argument& one : arguments) {
      if (!one.is_type || open_name(one.name) != pattern.name) continue;
      const bool anew = one.given && !same(one.type, type);
      if (anew) {
        fail(node(call[i]).at, fmt::format("template parameter '{}' would be {} and {}", one.name,
                                           spelling(one.type), spelling(type)));
      }
      one.given = true;
      one.type = type;
      one.text = spelling(type);
    }
  }
}

// Adds what is deduced from the arguments of a call, and defaults. False after an error.
bool parser::complete_template(const declaration& of, std::vector<template_argument>& arguments,
                               const std::vector<node_id>& call, place where) {
  if (failed()) return false;
  if (!of.is_template) return true;
  const std::vector<template_parameter> parameters = template_parameters(of);
  if (failed()) return false;
  if (arguments.size() < parameters.size()) deduce(of, arguments, parameters, call);
  for (std::size_t i = 0; i < parameters.size() && !failed(); ++i) {
    template_argument& one = arguments[i];
    if (one.given) continue;
    if (!parameters[i].has_default) {
      fail(where, fmt::format("template argument '{}' of '{}' is not given", one.name, of.name));
      break;
    }
    const std::vector<template_argument> before(arguments.begin(),
                                                arguments.begin() + static_cast<std::ptrdiff_t>(i));
    std::vector<binding> names = bindings_of(before);
    elsewhere there(*this, parameters[i].standard, of.path);
    here_.names = std::move(names);
    const std::string name = one.name;
    one = parse_template_argument(parameters[i].is_type);
    one.name = name;
    one.by_default = true;
    if (!failed() && !at_end())
      fail(peek(), fmt::format("found {}, allowed: the end of a default argument", found()));
  }
  return !failed();
}

}  // namespace quern::env::plan
