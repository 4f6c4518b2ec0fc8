// Carries a plan out on numbers: what the host functions would compute, within plan_limits.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "env/lanes/cuda/launch/program.hpp"

namespace quern::env::plan {

/// Why there is no value.
struct evaluation_error {
  base::errc code = base::errc::corrupt;
  place at;
  std::string text;
};

/// One evaluation, or several that share one budget of operations and statements.
class evaluator {
 public:
  /// `what` may grow between evaluations. Without `call` nothing can be launched.
  explicit evaluator(const program& what, const plan_call* call = nullptr)
      : program_(what), call_(call) {}

  /// The value of an expression that is the same at all sizes. False: see error().
  bool constant(node_id expression, value& out);
  /// Calls a function. False: see error().
  bool run(node_id function, std::span<const value> arguments, value& out);

  [[nodiscard]] const evaluation_error& error() const { return error_; }
  [[nodiscard]] std::vector<launch_step> take_steps() { return std::move(steps_); }

 private:
  enum class flow : std::uint8_t { on, leave, next, give };
  using frame = std::vector<value>;

  value evaluate(node_id id, const frame& variables);
  value evaluate_binary(const expression& node, const frame& variables);
  value evaluate_mathematics(const expression& node, const frame& variables);
  value evaluate_call(const expression& node, const frame& variables);
  bool truth(node_id id, const frame& variables);

  flow carry_out(node_id id, frame& variables);
  flow loop(const statement& node, frame& variables);
  flow select(const statement& node, frame& variables);
  flow sequence(const std::vector<node_id>& children, std::size_t begin, frame& variables);
  void set(const statement& node, frame& variables);
  void launch(const statement& node, const frame& variables);
  void fill(const statement& node, const frame& variables);
  void copy(const statement& node, const frame& variables);
  void require_shared(const statement& node, const frame& variables);

  bool dimensions(const statement& node, const frame& variables, kernel_launch& made);
  plan_pointer pointer(const value& from) const;
  std::int64_t bytes_of(const plan_pointer& where) const;
  std::string name_of_buffer(const plan_pointer& where) const;
  bool check_range(const plan_pointer& where, std::int64_t bytes, place at, const char* who);
  void add(launch_step step, place at);
  plan_argument argument(node_id id, const frame& variables);

  void fail(place at, std::string text, base::errc code = base::errc::corrupt);
  bool failed_ = false;

  const program& program_;
  const plan_call* call_;
  evaluation_error error_;
  std::vector<launch_step> steps_;
  value result_;
  int operations_ = 0;
  int statements_ = 0;
  int depth_ = 0;
};

}  // namespace quern::env::plan
