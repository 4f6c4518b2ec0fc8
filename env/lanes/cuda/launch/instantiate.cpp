// Functions of the candidate, and kernels with the types of their parameters.
#include <fmt/format.h>

#include "env/lanes/cuda/launch/parser.hpp"

namespace quern::env::plan {

// At '(' or '<' behind the name of a function.
node_id parser::parse_call(const std::vector<std::size_t>& overloads, const plan_token& name) {
  const nested level(*this);
  if (failed()) return 0;
  const declaration* of = nullptr;
  for (const std::size_t index : overloads) {
    const declaration& one = unit_.declarations[index];
    if (one.kind != entity::function || !one.defined) continue;
    if (of != nullptr) {
      fail(name,
           fmt::format("'{}' is defined more than once: allowed is one definition", name.text));
      return 0;
    }
    of = &one;
  }
  if (of == nullptr) {
    fail(name, fmt::format("'{}' is not defined in this file", name.text));
    return 0;
  }
  if (of->device && !of->host && !of->is_constexpr) {
    fail(name, fmt::format("'{}' is __device__: the host cannot call it", name.text));
    return 0;
  }
  std::vector<template_argument> given;
  if (at("<")) given = parse_template_arguments(*of);
  expect("(", "behind a function's name");
  if (failed()) return 0;
  const std::vector<node_id> arguments = parse_arguments(")");
  const place where = place_of(name);
  if (failed() || !complete_template(*of, given, arguments, where)) return 0;
  return instance(*of, given, arguments, where);
}

node_id parser::instance(const declaration& of, const std::vector<template_argument>& arguments,
                         const std::vector<node_id>& call, place where) {
  std::vector<binding> names = bindings_of(arguments);
  std::vector<binding> aside = std::move(here_.names);
  here_.names = names;
  const std::vector<parameter> declared = read_parameters(of, false);
  here_.names = std::move(aside);
  if (failed()) return 0;
  if (declared.size() != call.size()) {
    fail(where, fmt::format("'{}' has {} parameters, found {} arguments", of.name, declared.size(),
                            call.size()));
    return 0;
  }
  expression made;
  made.kind = operation::call;
  made.at = where;
  std::string key = of.qualified + "<";
  for (const template_argument& one : arguments)
    key += one.text + ",";
  key += ">";
  std::vector<value_type> automatic;
  for (std::size_t i = 0; i < call.size() && !failed(); ++i) {
    value_type type = declared[i].type;
    if (type.stars == 0) type.constant = false;
    if (declared[i].automatic) {
      type = node(call[i]).type;
      automatic.push_back(type);
      key += spelling(type) + ",";
    }
    made.arguments.push_back(convert(call[i], type, conversion::implicit,
                                     fmt::format("argument {} of '{}'", i + 1, of.name)));
  }
  if (failed()) return 0;
  const auto known = instances_.find(key);
  if (known != instances_.end() && known->second == no_node) {
    fail(where, fmt::format("'{}' calls itself", of.name));
    return 0;
  }
  if (known != instances_.end()) {
    made.slot = known->second;
  } else {
    if (instances_.size() >= plan_limits::instances) {
      fail(where, fmt::format("more than {} functions", plan_limits::instances));
      return 0;
    }
    instances_[key] = no_node;
    made.slot = read_function(of, std::move(names), automatic);
    instances_[key] = made.slot;
  }
  if (failed()) return 0;
  const function& what = program_.functions[static_cast<std::size_t>(made.slot)];
  made.type = what.result;
  if (what.launches && here_.function != no_node)
    program_.functions[static_cast<std::size_t>(here_.function)].launches = true;
  return add(std::move(made));
}

// Reads a definition with the names of its template arguments bound.
node_id parser::read_function(const declaration& of, std::vector<binding> names,
                              const std::vector<value_type>& automatic) {
  const nested level(*this);
  const auto number = static_cast<node_id>(program_.functions.size());
  program_.functions.emplace_back();
  elsewhere there(*this, of.type, of.path);
  here_.names = std::move(names);
  type_reading result;
  if (failed() || !read_type(result)) return number;
  if (!at_end()) fail(peek(), fmt::format("found {}, allowed: the type of a result", found()));
  if (result.reference)
    fail(unit_.tokens[of.name_at], fmt::format("'{}' returns a reference", of.name));
  const std::vector<parameter> declared = read_parameters(of, false);
  if (failed()) return number;
  function& made = program_.functions[static_cast<std::size_t>(number)];
  made.name = of.name;
  made.result = result.automatic ? plain(form::null) : result.type;
  if (made.result.stars == 0) made.result.constant = false;
  made.parameters = declared.size();
  made.slots = declared.size();
  std::size_t autos = 0;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    binding one;
    one.name = declared[i].name;
    one.type = declared[i].type;
    if (declared[i].automatic && autos < automatic.size()) one.type = automatic[autos++];
    if (one.type.stars == 0) one.type.constant = false;
    one.fixed = declared[i].fixed;
    one.slot = static_cast<std::int32_t>(i);
    const bool allowed = one.type.is_number() || one.type.is_pointer() || one.type.is(form::dim3) ||
                         one.type.is(form::stream);
    if (!allowed) {
      fail(declared[i].at, fmt::format("parameter {} of '{}' is {}: allowed are numbers, pointers, "
                                       "dim3 and the stream",
                                       i + 1, of.name, spelling(one.type)));
      return number;
    }
    if (!one.name.empty() && !bind(std::move(one), unit_.tokens[of.name_at])) return number;
  }
  here_.function = number;
  here_.cursor = of.body.first;
  here_.stop = of.body.last;
  const node_id body = parse_body();
  function& done = program_.functions[static_cast<std::size_t>(number)];
  done.body = body;
  if (done.result.is(form::null)) done.result = plain(form::nothing);
  return number;
}

std::uint32_t parser::kernel_number(const declaration& of,
                                    const std::vector<template_argument>& arguments, place where) {
  std::string name = of.qualified;
  std::size_t written = arguments.size();
  while (written > 0 && arguments[written - 1].by_default)
    --written;
  if (of.is_template) {
    name += "<";
    for (std::size_t i = 0; i < written; ++i)
      name += (i > 0 ? ", " : "") + arguments[i].text;
    name += ">";
  }
  const auto known = kernel_numbers_.find(name);
  if (known != kernel_numbers_.end()) return known->second;
  if (!of.defined) {
    fail(where, fmt::format("kernel '{}' is not defined in this file", of.name));
    return 0;
  }
  int definitions = 0;
  for (const std::size_t index : unit_.by_name.at(of.qualified))
    definitions += unit_.declarations[index].defined ? 1 : 0;
  if (definitions > 1) {
    fail(where, fmt::format("kernel '{}' is defined more than once", of.name));
    return 0;
  }
  if (program_.entries.size() >= plan_limits::kernels) {
    fail(where,
         fmt::format("more than {} kernels, which is what a runner takes", plan_limits::kernels));
    return 0;
  }
  std::vector<binding> aside = std::move(here_.names);
  here_.names = bindings_of(arguments);
  const std::vector<parameter> declared = read_parameters(of, true);
  here_.names = std::move(aside);
  if (declared.size() > plan_limits::kernel_parameters) {
    fail(where, fmt::format("kernel '{}' has {} parameters: a runner takes {} at most", of.name,
                            declared.size(), plan_limits::kernel_parameters));
    return 0;
  }
  kernel_entry entry;
  plan_kernel outside;
  entry.name = name;
  outside.name = name;
  for (std::size_t i = 0; i < declared.size() && !failed(); ++i) {
    value_type type = declared[i].type;
    if (type.stars == 0) type.constant = false;
    if ((!type.is_number() && !type.is_pointer()) || declared[i].automatic) {
      fail(declared[i].at, fmt::format("parameter {} of kernel '{}' is {}: allowed are numbers and "
                                       "pointers",
                                       i + 1, of.name, spelling(type)));
      return 0;
    }
    entry.parameters.push_back(type);
    outside.parameters.push_back({type.is_pointer(), size_of(type), spelling(type)});
  }
  if (failed()) return 0;
  const auto number = static_cast<std::uint32_t>(program_.entries.size());
  program_.entries.push_back(std::move(entry));
  program_.kernels.push_back(std::move(outside));
  kernel_numbers_[name] = number;
  return number;
}

}  // namespace quern::env::plan
