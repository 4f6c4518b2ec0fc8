// Reads the host functions of a candidate into a program. One class, spread over files by subject:
//   parser.cpp             entries, tokens, errors, names
//   parse_type.cpp         types and declared parameters
//   parse_expression.cpp   operators and casts
//   parse_primary.cpp      names and calls, parse_number.cpp: literals
//   build_expression.cpp   typing and conversions
//   parse_statement.cpp    control flow, parse_variable.cpp: declarations and assignments
//   parse_launch.cpp       launches, fills, copies
//   instantiate.cpp        functions of the candidate, kernels, templates.cpp: their arguments
// The first error is kept and the cursor goes to the end, so that everything unwinds by itself.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "env/lanes/cuda/launch/evaluate.hpp"
#include "env/lanes/cuda/launch/program.hpp"
#include "env/lanes/cuda/launch/unit.hpp"

namespace quern::env::plan {

/// One argument of a template, written, deduced or by default.
struct template_argument {
  std::string name;  ///< of the parameter
  bool given = false;
  bool is_type = false;
  bool by_default = false;
  value_type type;  ///< of types; of values that are known
  bool known = false;
  value number;      ///< of known values
  std::string text;  ///< as it stands in a name expression
};

class parser {
 public:
  parser(const unit& of, program& into) : unit_(of), program_(into), constants_(into) {}

  /// Reads `kernel` and `workspace_bytes`; the program's signature is set.
  std::optional<plan_error> run();

 private:
  // ---- names ----
  struct binding {
    enum class role : std::uint8_t { variable, constant, type, arguments, unknown };
    std::string name;
    role kind = role::variable;
    value_type type;
    std::int32_t slot = 0;
    bool fixed = false;            // const: cannot be assigned
    value known;                   // of constants
    std::string text;              // of template arguments whose value is not known here
    std::vector<node_id> targets;  // of void* args[]: what is read when it is launched
  };
  // What is being read, put aside while a function or a constant is read in between.
  struct context {
    std::size_t cursor = 0;
    std::size_t stop = 0;
    std::vector<binding> names;
    std::size_t scope = 0;  // of names: where the innermost block begins
    std::vector<std::string> path;
    node_id function = no_node;
    bool angles = false;  // '>' ends the expression
    int loops = 0;
    int switches = 0;
  };
  struct resolved_constant {
    bool busy = false;
    bool done = false;
    value_type type;
    value known;
  };

  // ---- parser.cpp ----
  const declaration* find_entry(std::string_view name);
  bool read_kernel(const declaration& entry);
  bool read_workspace(const declaration& entry);

  [[nodiscard]] const plan_token& peek(std::size_t ahead = 0) const;
  [[nodiscard]] bool at(std::string_view text, std::size_t ahead = 0) const;
  [[nodiscard]] bool at_end() const { return here_.cursor >= here_.stop; }
  [[nodiscard]] bool at_identifier(std::size_t ahead = 0) const;
  [[nodiscard]] bool at_launch_end() const;  // >>>
  void skip(std::size_t count = 1) { here_.cursor += count; }
  bool accept(std::string_view text);
  bool expect(std::string_view text, std::string_view where);
  void fail(const plan_token& where, std::string text);
  void fail(place where, std::string text);
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] std::string found() const;
  [[nodiscard]] static place place_of(const plan_token& token) {
    return {token.line, token.column};
  }

  // Counts nesting for as long as it lives.
  class nested {
   public:
    explicit nested(parser& of);
    ~nested() { --parser_.depth_; }
    nested(const nested&) = delete;
    nested& operator=(const nested&) = delete;

   private:
    parser& parser_;
  };
  // Puts the current context aside and reads elsewhere for as long as it lives.
  class elsewhere {
   public:
    elsewhere(parser& of, token_range range, const std::vector<std::string>& path);
    ~elsewhere();
    elsewhere(const elsewhere&) = delete;
    elsewhere& operator=(const elsewhere&) = delete;

   private:
    parser& parser_;
    context aside_;
  };

  binding* find_name(std::string_view name);
  bool bind(binding made, const plan_token& where);
  // A block: the names in it are forgotten at its end.
  class block_scope {
   public:
    explicit block_scope(parser& of)
        : parser_(of), names_(of.here_.names.size()), scope_(of.here_.scope) {
      of.here_.scope = names_;
    }
    ~block_scope() {
      if (parser_.here_.names.size() > names_) parser_.here_.names.resize(names_);
      parser_.here_.scope = scope_;
    }
    block_scope(const block_scope&) = delete;
    block_scope& operator=(const block_scope&) = delete;

   private:
    parser& parser_;
    std::size_t names_;
    std::size_t scope_;
  };
  const std::vector<std::size_t>* find_entity(const std::vector<std::string>& parts, bool global);
  // a::b::c at the cursor; `behind` is the first token after it.
  struct name_path {
    std::vector<std::string> parts;
    bool global = false;    // begins with '::'
    bool standard = false;  // std::, taken off
    std::size_t behind = 0;
  };
  [[nodiscard]] name_path path_here() const;
  [[nodiscard]] static std::string text_of(const name_path& path);
  const declaration* entity_here(const name_path& path);
  const resolved_constant& constant_of(std::size_t index);

  // ---- parse_type.cpp ----
  struct type_reading {
    value_type type;
    bool automatic = false;
    bool is_static = false;
    bool is_constexpr = false;
    bool fixed = false;  // the variable itself is const
    bool reference = false;
  };
  struct parameter {
    value_type type;
    bool automatic = false;
    bool fixed = false;
    std::string name;
    place at;
  };
  [[nodiscard]] bool starts_type();
  bool read_type(type_reading& out, bool any_name = false);
  bool read_base_type(type_reading& out, bool any_name);
  void read_stars(type_reading& out);
  bool read_type_name(value_type& out, bool any_name);
  std::optional<value_type> type_named(const name_path& path);
  std::optional<value_type> alias_of(std::size_t index);
  std::vector<parameter> read_parameters(const declaration& of, bool any_name);

  // ---- build_expression.cpp ----
  expression& node(node_id id) { return program_.expressions[static_cast<std::size_t>(id)]; }
  node_id add(expression made);
  node_id add(statement made);
  node_id literal(const value_type& type, const value& known, place where);
  node_id integer(std::int64_t number, place where);
  node_id convert(node_id id, const value_type& to, conversion how, std::string_view role);
  node_id to_number(node_id id, scalar type, conversion how);
  node_id to_condition(node_id id);
  node_id to_dim3(node_id id, std::string_view role);
  node_id binary(operation what, node_id left, node_id right, place where);
  node_id unary(operation what, node_id operand, place where);
  node_id advance(node_id pointer, node_id count, bool back, place where);
  node_id least_or_greatest(bool least, node_id left, node_id right, bool standard, place where);
  node_id mathematics(std::string_view name, std::vector<node_id> arguments, place where);
  bool known_value(node_id id, value& out);
  static bool is_mathematics(std::string_view name);

  // ---- parse_expression.cpp ----
  node_id parse_expression();
  node_id parse_binary(int least);
  node_id parse_unary();
  node_id parse_address();
  node_id parse_postfix();
  node_id parse_cast(const value_type& to, node_id operand, place where);
  node_id parse_named_cast();
  std::vector<node_id> parse_arguments(std::string_view close);

  // ---- parse_number.cpp ----
  node_id parse_number();
  node_id parse_named_number();
  node_id parse_numeric_limit();

  // ---- parse_primary.cpp ----
  node_id parse_primary();
  node_id parse_name();
  node_id parse_functional_cast();
  node_id parse_sizeof();
  node_id parse_library_call(const name_path& path, const plan_token& name);
  node_id dim3_of(const std::vector<node_id>& members, place where);

  // ---- parse_statement.cpp ----
  node_id parse_statement();
  node_id parse_block();
  node_id parse_body();
  node_id parse_controlled();
  node_id parse_if();
  node_id parse_for();
  node_id parse_while();
  node_id parse_do();
  node_id parse_switch();
  node_id parse_return();
  node_id parse_ignored();
  node_id parse_named_statement();

  // ---- parse_variable.cpp ----
  node_id parse_declaration();
  node_id parse_declarator(type_reading reading);
  node_id parse_initialiser(const type_reading& reading, const plan_token& name);
  node_id parse_argument_array(const plan_token& first);
  node_id parse_local_alias();
  node_id parse_assignment();
  node_id declare(const plan_token& name, const type_reading& reading, node_id initial);
  std::int32_t new_slot();

  // ---- parse_launch.cpp ----
  node_id parse_launch(const declaration& kernel);
  node_id parse_cooperative();
  node_id parse_fill();
  node_id parse_copy();
  node_id parse_attribute();
  bool parse_stream(std::string_view where);
  node_id parse_dimensions(std::string_view role);
  const declaration* parse_kernel_name(std::vector<template_argument>& arguments);
  bool bind_launch(statement& made, const declaration& kernel, std::vector<template_argument> given,
                   std::vector<node_id> arguments, bool exact);

  // ---- templates.cpp ----
  struct template_parameter {
    bool is_type = false;
    bool has_default = false;
    std::string name;
    token_range standard;  // the default argument
  };
  std::vector<template_parameter> template_parameters(const declaration& of);
  std::vector<template_argument> parse_template_arguments(const declaration& of);
  template_argument parse_template_argument(bool is_type);
  bool complete_template(const declaration& of, std::vector<template_argument>& arguments,
                         const std::vector<node_id>& call, place where);
  void deduce(const declaration& of, std::vector<template_argument>& arguments,
              const std::vector<template_parameter>& parameters, const std::vector<node_id>& call);
  std::vector<binding> bindings_of(const std::vector<template_argument>& arguments);

  // ---- instantiate.cpp ----
  node_id parse_call(const std::vector<std::size_t>& overloads, const plan_token& name);
  node_id instance(const declaration& of, const std::vector<template_argument>& arguments,
                   const std::vector<node_id>& call, place where);
  node_id read_function(const declaration& of, std::vector<binding> names,
                        const std::vector<value_type>& automatic);
  std::uint32_t kernel_number(const declaration& of,
                              const std::vector<template_argument>& arguments, place where);

  const unit& unit_;
  program& program_;
  evaluator constants_;
  context here_;
  int depth_ = 0;
  std::optional<plan_error> error_;
  std::map<std::size_t, resolved_constant> resolved_;
  std::map<std::size_t, std::optional<value_type>> aliases_;
  std::map<std::string, node_id> instances_;  // -1 while it is read
  std::map<std::string, std::uint32_t> kernel_numbers_;
};

}  // namespace quern::env::plan
