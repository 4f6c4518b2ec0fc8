// Launches, fills, copies and the attribute for large shared memory.
#include <fmt/format.h>

#include "env/lanes/cuda/launch/parser.hpp"

namespace quern::env::plan {

// The stream has to be the parameter of the function: work on another one would not be seen.
bool parser::parse_stream(std::string_view where) {
  const plan_token& token = peek();
  const binding* given = at_identifier() ? find_name(token.text) : nullptr;
  if (given == nullptr || !given->type.is(form::stream)) {
    fail(token, fmt::format("found {} as the stream of {}: allowed is the stream parameter of this "
                            "function",
                            found(), where));
    return false;
  }
  skip();
  return true;
}

node_id parser::parse_dimensions(std::string_view role) {
  const place where = place_of(peek());
  if (accept("{")) {
    const std::vector<node_id> members = parse_arguments("}");
    return dim3_of(members, where);
  }
  return to_dim3(parse_expression(), role);
}

// name<template arguments><<<grid, block, shared, stream>>>(arguments); with the cursor behind the
// name.
node_id parser::parse_launch(const declaration& kernel) {
  statement made;
  made.kind = action::launch;
  made.at = place_of(unit_.tokens[here_.cursor - 1]);
  std::vector<template_argument> given;
  if (at("<")) given = parse_template_arguments(kernel);
  if (failed()) return 0;
  expect("<<<", "behind a kernel's name");
  if (failed()) return 0;
  made.a = parse_dimensions("the grid");
  expect(",", "behind the grid");
  if (failed()) return 0;
  made.b = parse_dimensions("the block");
  const bool with_shared = accept(",");
  if (with_shared) {
    made.c = convert(parse_expression(), number_of(scalar::unsigned_long), conversion::implicit,
                     "the size of shared memory");
  }
  if (failed()) return 0;
  if (!accept(",")) {
    fail(peek(), at_launch_end()
                     ? "a launch without a stream, which would not be ordered with the others: "
                       "allowed is <<<grid, block, shared, stream>>>"
                     : fmt::format("found {}, allowed: an operator, ',' or '>>>'", found()));
    return 0;
  }
  if (!with_shared || !parse_stream("a launch")) return 0;
  if (!at_launch_end()) {
    fail(peek(), fmt::format("found {}, allowed behind the stream: '>>>'", found()));
    return 0;
  }
  skip(3);
  expect("(", "behind <<<...>>>");
  if (failed()) return 0;
  std::vector<node_id> arguments = parse_arguments(")");
  expect(";", "behind a launch");
  if (failed() || !bind_launch(made, kernel, std::move(given), std::move(arguments), false))
    return 0;
  return add(std::move(made));
}

// Fills in the kernel and its converted arguments. `exact`: the driver reads the variables as they
// are, without conversion.
bool parser::bind_launch(statement& made, const declaration& kernel,
                         std::vector<template_argument> given, std::vector<node_id> arguments,
                         bool exact) {
  if (!complete_template(kernel, given, arguments, made.at)) return false;
  made.kernel = kernel_number(kernel, given, made.at);
  if (failed()) return false;
  const std::vector<value_type> types = program_.entries[made.kernel].parameters;
  if (arguments.size() != types.size()) {
    fail(made.at, fmt::format("kernel '{}' has {} parameters, found {} arguments", kernel.name,
                              types.size(), arguments.size()));
    return false;
  }
  for (std::size_t i = 0; i < types.size() && !failed(); ++i) {
    const value_type& type = node(arguments[i]).type;
    const std::string role = fmt::format("argument {} of kernel '{}'", i + 1, kernel.name);
    const bool alike =
        types[i].is_pointer() ? type.is_pointer() : same_representation(type, types[i]);
    if (exact && !alike) {
      fail(node(arguments[i]).at,
           fmt::format("{} is {}, its parameter is {}: a cooperative launch converts nothing", role,
                       spelling(type), spelling(types[i])));
      return false;
    }
    if (!exact || type.is_number())
      arguments[i] = convert(arguments[i], types[i], conversion::implicit, role);
  }
  made.children = std::move(arguments);
  program_.functions[static_cast<std::size_t>(here_.function)].launches = true;
  return !failed();
}

// name, &name, (void*)name, (const void*)name<...>, reinterpret_cast<const void*>(name)
const declaration* parser::parse_kernel_name(std::vector<template_argument>& arguments) {
  int parentheses = 0;
  if (at("(") && (at("void", 1) || at("const", 1))) {
    skip(at("const", 1) ? 2 : 1);
    expect("void", "in a cast of a kernel");
    expect("*", "in a cast of a kernel");
    expect(")", "in a cast of a kernel");
  } else if (at("reinterpret_cast") || at("static_cast")) {
    skip();
    expect("<", "in a cast of a kernel");
    accept("const");
    expect("void", "in a cast of a kernel");
    expect("*", "in a cast of a kernel");
    expect(">", "in a cast of a kernel");
    expect("(", "in a cast of a kernel");
    parentheses = 1;
  }
  accept("&");
  if (failed()) return nullptr;
  const name_path path = path_here();
  const declaration* kernel = entity_here(path);
  if (kernel == nullptr || kernel->kind != entity::kernel) {
    fail(peek(),
         fmt::format("found {}, allowed: the name of a __global__ function of this file", found()));
    return nullptr;
  }
  here_.cursor = path.behind;
  if (at("<")) arguments = parse_template_arguments(*kernel);
  if (parentheses > 0) expect(")", "behind a kernel's name");
  return failed() ? nullptr : kernel;
}

node_id parser::parse_cooperative() {
  statement made;
  made.kind = action::launch;
  made.at = place_of(peek());
  made.cooperative = true;
  skip();
  expect("(", "behind cudaLaunchCooperativeKernel");
  std::vector<template_argument> given;
  const declaration* kernel = failed() ? nullptr : parse_kernel_name(given);
  expect(",", "behind the kernel");
  if (failed()) return 0;
  made.a = parse_dimensions("the grid");
  expect(",", "behind the grid");
  if (failed()) return 0;
  made.b = parse_dimensions("the block");
  expect(",", "behind the block");
  const binding* list = at_identifier() ? find_name(peek().text) : nullptr;
  if (!failed() && (list == nullptr || list->kind != binding::role::arguments))
    fail(peek(), fmt::format("found {}, allowed: the name of a void* args[]", found()));
  if (failed()) return 0;
  std::vector<node_id> arguments = list->targets;
  skip();
  expect(",", "behind the arguments");
  made.c = convert(parse_expression(), number_of(scalar::unsigned_long), conversion::implicit,
                   "the size of shared memory");
  expect(",", "behind the size of shared memory");
  if (failed() || !parse_stream("cudaLaunchCooperativeKernel")) return 0;
  expect(")", "behind the stream");
  expect(";", "behind a launch");
  if (failed() || !bind_launch(made, *kernel, std::move(given), std::move(arguments), true))
    return 0;
  return add(std::move(made));
}

node_id parser::parse_fill() {
  statement made;
  made.kind = action::fill;
  made.at = place_of(peek());
  skip();
  value_type bytes = pointer_to(plain(form::nothing));
  expect("(", "behind cudaMemsetAsync");
  made.a = convert(parse_expression(), bytes, conversion::implicit, "what is set");
  expect(",", "behind the pointer");
  made.b =
      convert(parse_expression(), number_of(scalar::int_type), conversion::implicit, "the value");
  expect(",", "behind the value");
  made.c = convert(parse_expression(), number_of(scalar::unsigned_long), conversion::implicit,
                   "the number of bytes");
  expect(",", "behind the number of bytes");
  if (failed() || !parse_stream("cudaMemsetAsync")) return 0;
  expect(")", "behind the stream");
  expect(";", "behind cudaMemsetAsync");
  if (failed()) return 0;
  program_.functions[static_cast<std::size_t>(here_.function)].launches = true;
  return add(std::move(made));
}

node_id parser::parse_copy() {
  statement made;
  made.kind = action::copy;
  made.at = place_of(peek());
  skip();
  value_type bytes = pointer_to(plain(form::nothing));
  expect("(", "behind cudaMemcpyAsync");
  made.a = convert(parse_expression(), bytes, conversion::implicit, "what is written");
  expect(",", "behind the pointer");
  bytes.constant = true;
  made.b = convert(parse_expression(), bytes, conversion::implicit, "what is read");
  expect(",", "behind the pointer");
  made.c = convert(parse_expression(), number_of(scalar::unsigned_long), conversion::implicit,
                   "the number of bytes");
  expect(",", "behind the number of bytes");
  if (failed()) return 0;
  if (!at("cudaMemcpyDeviceToDevice") && !at("cudaMemcpyDefault")) {
    fail(peek(), fmt::format("found {}, allowed: cudaMemcpyDeviceToDevice", found()));
    return 0;
  }
  skip();
  expect(",", "behind the kind of copy");
  if (failed() || !parse_stream("cudaMemcpyAsync")) return 0;
  expect(")", "behind the stream");
  expect(";", "behind cudaMemcpyAsync");
  if (failed()) return 0;
  program_.functions[static_cast<std::size_t>(here_.function)].launches = true;
  return add(std::move(made));
}

// The runner sets what each launch needs; here it is only read and checked.
node_id parser::parse_attribute() {
  statement made;
  made.kind = action::require;
  made.at = place_of(peek());
  skip();
  expect("(", "behind cudaFuncSetAttribute");
  std::vector<template_argument> given;
  if (failed() || parse_kernel_name(given) == nullptr) return 0;
  expect(",", "behind the kernel");
  if (!failed() && !at("cudaFuncAttributeMaxDynamicSharedMemorySize"))
    fail(peek(),
         fmt::format("found {}, allowed: cudaFuncAttributeMaxDynamicSharedMemorySize", found()));
  if (failed()) return 0;
  skip();
  expect(",", "behind the attribute");
  made.a = convert(parse_expression(), number_of(scalar::int_type), conversion::implicit,
                   "the size of shared memory");
  expect(")", "behind the size of shared memory");
  expect(";", "behind cudaFuncSetAttribute");
  return failed() ? 0 : add(std::move(made));
}

}  // namespace quern::env::plan
