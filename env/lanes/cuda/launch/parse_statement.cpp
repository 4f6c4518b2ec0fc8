// Control flow, and what a statement can begin with.
#include <array>

#include <fmt/format.h>

#include "env/lanes/cuda/launch/parser.hpp"

namespace quern::env::plan {
namespace {

constexpr std::string_view allowed_statements =
    "a declaration, an assignment, if, for, while, do, switch, return, a launch with <<<...>>>, "
    "cudaLaunchCooperativeKernel, cudaMemsetAsync, cudaMemcpyAsync, cudaFuncSetAttribute, "
    "(void)name, or a function of this file";

}  // namespace

node_id parser::parse_statement() {
  const nested level(*this);
  if (failed()) return 0;
  const plan_token& first = peek();
  if (at("{")) {
    skip();
    return parse_block();
  }
  if (accept(";")) {
    statement empty;
    empty.at = place_of(first);
    return add(std::move(empty));
  }
  if (at("if")) return parse_if();
  if (at("for")) return parse_for();
  if (at("while")) return parse_while();
  if (at("do")) return parse_do();
  if (at("switch")) return parse_switch();
  if (at("return")) return parse_return();
  if (at("break") || at("continue")) {
    const bool leaves = at("break");
    if (here_.loops == 0 && !(leaves && here_.switches > 0)) {
      fail(first, fmt::format("'{}' outside a loop", first.text));
      return 0;
    }
    skip();
    expect(";", "behind " + first.text);
    statement made;
    made.kind = leaves ? action::leave : action::next;
    made.at = place_of(first);
    return add(std::move(made));
  }
  if (at("(") && at("void", 1) && at(")", 2)) return parse_ignored();
  if (at("using")) return parse_local_alias();
  if (starts_type()) return parse_declaration();
  if (at("++") || at("--") || at_identifier() || at("::")) return parse_named_statement();
  fail(first, fmt::format("found {}, allowed: {}", found(), allowed_statements));
  return 0;
}

// (void)name; changes nothing.
node_id parser::parse_ignored() {
  const place where = place_of(peek());
  skip(3);
  if (!at_identifier() || find_name(peek().text) == nullptr) {
    fail(peek(), fmt::format("found {}, allowed behind (void): a variable", found()));
    return 0;
  }
  skip();
  expect(";", "behind (void)name");
  statement made;
  made.at = where;
  return add(std::move(made));
}

node_id parser::parse_named_statement() {
  const plan_token& first = peek();
  if (at("++") || at("--")) {
    const node_id made = parse_assignment();
    expect(";", "behind an assignment");
    return made;
  }
  const name_path path = path_here();
  const bool single = path.parts.size() == 1 && !path.standard;
  if (single && !path.global && find_name(first.text) != nullptr) {
    const node_id made = parse_assignment();
    expect(";", "behind an assignment");
    return made;
  }
  if (const declaration* known = entity_here(path)) {
    if (known->kind == entity::kernel) {
      here_.cursor = path.behind;
      return parse_launch(*known);
    }
    if (known->kind == entity::function) {
      statement made;
      made.kind = action::evaluate;
      made.at = place_of(first);
      made.a = parse_expression();
      expect(";", "behind a call");
      return add(std::move(made));
    }
  }
  if (single) {
    const std::string_view word = path.parts[0];
    if (word == "cudaLaunchCooperativeKernel") return parse_cooperative();
    if (word == "cudaMemsetAsync") return parse_fill();
    if (word == "cudaMemcpyAsync") return parse_copy();
    if (word == "cudaFuncSetAttribute") return parse_attribute();
  }
  fail(first, fmt::format("found '{}', allowed: {}", text_of(path), allowed_statements));
  return 0;
}

// Behind an opening brace, up to and with its closing one.
node_id parser::parse_block() {
  const block_scope scope(*this);
  statement block;
  block.at = place_of(peek());
  while (!failed() && !at_end() && !at("}"))
    block.children.push_back(parse_statement());
  expect("}", "behind a block");
  return add(std::move(block));
}

// All of a function's body, in the scope of its parameters.
node_id parser::parse_body() {
  statement block;
  block.at = place_of(peek());
  while (!failed() && !at_end())
    block.children.push_back(parse_statement());
  return add(std::move(block));
}

// What an if or a loop controls: a scope of its own, with braces or without.
node_id parser::parse_controlled() {
  const block_scope scope(*this);
  return parse_statement();
}

node_id parser::parse_if() {
  statement made;
  made.kind = action::choose;
  made.at = place_of(peek());
  skip();
  if (at("constexpr")) {
    fail(peek(), "if constexpr is not in the grammar: allowed is if (condition)");
    return 0;
  }
  expect("(", "behind if");
  made.a = to_condition(parse_expression());
  expect(")", "behind a condition");
  made.first = parse_controlled();
  if (accept("else")) made.second = parse_controlled();
  return add(std::move(made));
}

node_id parser::parse_for() {
  const block_scope scope(*this);
  statement whole;
  whole.at = place_of(peek());
  skip();
  expect("(", "behind for");
  if (failed()) return 0;
  if (starts_type()) {
    whole.children.push_back(parse_declaration());
  } else {
    while (!failed() && !at(";")) {
      whole.children.push_back(parse_assignment());
      if (!accept(",")) break;
    }
    expect(";", "in for");
  }
  statement made;
  made.kind = action::loop;
  made.at = whole.at;
  if (!at(";")) made.a = to_condition(parse_expression());
  expect(";", "in for");
  statement steps;
  steps.at = whole.at;
  while (!failed() && !at(")")) {
    steps.children.push_back(parse_assignment());
    if (!accept(",")) break;
  }
  expect(")", "behind for");
  ++here_.loops;
  made.first = parse_controlled();
  --here_.loops;
  made.second = add(std::move(steps));
  whole.children.push_back(add(std::move(made)));
  return add(std::move(whole));
}

node_id parser::parse_while() {
  statement made;
  made.kind = action::loop;
  made.at = place_of(peek());
  skip();
  expect("(", "behind while");
  made.a = to_condition(parse_expression());
  expect(")", "behind a condition");
  ++here_.loops;
  made.first = parse_controlled();
  --here_.loops;
  return add(std::move(made));
}

node_id parser::parse_do() {
  statement made;
  made.kind = action::loop_after;
  made.at = place_of(peek());
  skip();
  ++here_.loops;
  made.first = parse_controlled();
  --here_.loops;
  expect("while", "behind the body of do");
  expect("(", "behind while");
  made.a = to_condition(parse_expression());
  expect(")", "behind a condition");
  expect(";", "behind do ... while");
  return add(std::move(made));
}

node_id parser::parse_switch() {
  statement made;
  made.kind = action::select;
  made.at = place_of(peek());
  skip();
  expect("(", "behind switch");
  made.a = parse_expression();
  expect(")", "behind the value of switch");
  if (!failed() && !node(made.a).type.is_integer())
    fail(made.at, fmt::format("switch on {}: allowed are integers", spelling(node(made.a).type)));
  expect("{", "behind switch (...)");
  if (failed()) return 0;
  const scalar type = promoted(node(made.a).type.number);
  made.a = to_number(made.a, type, conversion::operand);
  const block_scope scope(*this);
  ++here_.switches;
  while (!failed() && !at_end() && !at("}")) {
    if (at("case") || at("default")) {
      switch_label label;
      label.begin = made.children.size();
      label.is_default = at("default");
      const plan_token& word = peek();
      skip();
      if (!label.is_default) {
        node_id match = parse_expression();
        value known;
        if (!failed() && !node(match).type.is_integer())
          fail(word, fmt::format("case of {}: allowed are integers", spelling(node(match).type)));
        match = to_number(match, type, conversion::implicit);
        if (!known_value(match, known)) return 0;
        label.match = known.word[0];
      }
      expect(":", "behind a label");
      made.labels.push_back(label);
    } else {
      made.children.push_back(parse_statement());
    }
  }
  --here_.switches;
  expect("}", "behind switch");
  return add(std::move(made));
}

node_id parser::parse_return() {
  statement made;
  made.kind = action::give;
  made.at = place_of(peek());
  skip();
  const auto own = static_cast<std::size_t>(here_.function);
  if (accept(";")) {
    value_type& result = program_.functions[own].result;
    if (result.is(form::null)) result = plain(form::nothing);  // auto
    if (!result.is(form::nothing)) fail(made.at, "return without a value");
    return add(std::move(made));
  }
  node_id given = parse_expression();
  if (failed()) return 0;
  const value_type type = node(given).type;
  value_type& result = program_.functions[own].result;
  if (result.is(form::null)) result = type;
  if (result.is(form::nothing)) {
    fail(made.at, "return with a value in a function that returns void");
    return 0;
  }
  const value_type wanted = result;
  made.a = convert(given, wanted, conversion::implicit, "the value of return");
  expect(";", "behind return");
  return add(std::move(made));
}

}  // namespace quern::env::plan
