// What the parser makes of the host functions: expressions and statements in two flat lists, which
// refer to each other by number (so that destroying one never recurses), with every type resolved.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "env/lanes/cuda/launch/arithmetic.hpp"
#include "env/lanes/cuda/launch/launch_plan.hpp"
#include "env/lanes/cuda/launch/value_type.hpp"

namespace quern::env::plan {

/// Number of an expression, statement or function; -1: there is none.
using node_id = std::int32_t;
inline constexpr node_id no_node = -1;

struct place {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
};

/// Functions of one or two floating arguments.
enum class math_function : std::uint8_t {
  square_root,
  reciprocal_root,
  exponential,
  exponential2,
  logarithm,
  logarithm2,
  logarithm10,
  power,
  sine,
  cosine,
  hyperbolic_tangent,
  absolute,
  floor_of,
  ceiling,
  rounded,
  truncated,
  lesser,
  greater
};

struct expression {
  operation kind = operation::literal;
  math_function function = math_function::square_root;  ///< of mathematics
  conversion conversion_kind = conversion::implicit;    ///< of convert
  bool constant = false;                                ///< the same at all sizes
  place at;
  value_type type;
  node_id a = no_node;
  node_id b = no_node;
  node_id c = no_node;
  std::int32_t slot = 0;           ///< of variable; component of member; function of call
  std::int64_t scale = 1;          ///< of advance: bytes of one element, negative to go back
  value constant_value;            ///< of literal
  std::vector<node_id> arguments;  ///< of call
  int height = 1;
};

enum class action : std::uint8_t {
  block,
  set,         ///< slot[.component] = a
  forget,      ///< a variable is declared without a value
  evaluate,    ///< a, for a call of a function that has no result
  choose,      ///< if a: first else second
  loop,        ///< a: condition or none; first: body; second: what is done after each turn
  loop_after,  ///< do ... while: body first
  select,      ///< switch on a; labels
  give,        ///< return a, or nothing
  leave,       ///< break
  next,        ///< continue
  launch,
  fill,    ///< cudaMemsetAsync(a, b, c)
  copy,    ///< cudaMemcpyAsync(a, b, c)
  require  ///< cudaFuncSetAttribute: a is a size of shared memory
};

struct switch_label {
  bool is_default = false;
  std::int64_t match = 0;
  std::size_t begin = 0;  ///< first of `children` to do
};

struct statement {
  action kind = action::block;
  place at;
  node_id a = no_node;
  node_id b = no_node;
  node_id c = no_node;
  std::int32_t slot = 0;
  std::int32_t component = -1;  ///< -1: the whole variable
  node_id first = no_node;
  node_id second = no_node;
  std::vector<node_id> children;  ///< of block and select; arguments of launch are expressions
  std::vector<switch_label> labels;
  // Of launch: a is the grid, b the block, c the shared memory.
  std::uint32_t kernel = 0;
  bool cooperative = false;
  int height = 1;
};

struct function {
  std::string name;
  value_type result;
  std::size_t parameters = 0;  ///< they are the first slots
  std::size_t slots = 0;
  node_id body = no_node;
  bool launches = false;  ///< itself or through others: has an effect
};

struct kernel_entry {
  std::string name;
  std::vector<value_type> parameters;
};

struct program {
  plan_signature signature;
  std::vector<expression> expressions;
  std::vector<statement> statements;
  std::vector<function> functions;
  std::vector<kernel_entry> entries;
  std::vector<plan_kernel> kernels;  ///< the same, for the caller
  node_id kernel_function = no_node;
  node_id workspace_function = no_node;
  std::string device_source;
};

}  // namespace quern::env::plan
