// Launches, fills and copies: from values to steps, with CUDA's limits and the buffers' sizes.
#include <cstring>

#include <fmt/format.h>

#include "env/lanes/cuda/launch/evaluate.hpp"

namespace quern::env::plan {

plan_pointer evaluator::pointer(const value& from) const {
  plan_pointer made;
  made.buffer = static_cast<plan_buffer>(from.word[1]);
  made.index = static_cast<std::uint32_t>(from.word[2]);
  made.offset = from.word[0];
  return made;
}

std::int64_t evaluator::bytes_of(const plan_pointer& where) const {
  switch (where.buffer) {
    case plan_buffer::input:
      return call_->input_bytes.at(where.index);
    case plan_buffer::output:
      return call_->output_bytes.at(where.index);
    case plan_buffer::workspace:
      return call_->workspace_bytes;
    case plan_buffer::null:
      break;
  }
  return 0;
}

std::string evaluator::name_of_buffer(const plan_pointer& where) const {
  switch (where.buffer) {
    case plan_buffer::input:
      return fmt::format("input '{}'", program_.signature.inputs.at(where.index).name);
    case plan_buffer::output:
      return fmt::format("output '{}'", program_.signature.outputs.at(where.index).name);
    case plan_buffer::workspace:
      return "the workspace";
    case plan_buffer::null:
      break;
  }
  return "a null pointer";
}

// Whether `bytes` from `where` on lie inside its buffer.
bool evaluator::check_range(const plan_pointer& where, std::int64_t bytes, place at,
                            const char* who) {
  const std::int64_t size = bytes_of(where);
  if (where.offset >= 0 && where.offset <= size && bytes <= size - where.offset) return true;
  if (bytes == 0) {
    fail(at, fmt::format("{} is byte {} of {}, which has {} bytes", who, where.offset,
                         name_of_buffer(where), size));
  } else {
    fail(at, fmt::format("{} is {} bytes from byte {} of {} on, which has {} bytes", who, bytes,
                         where.offset, name_of_buffer(where), size));
  }
  return false;
}

void evaluator::add(launch_step step, place at) {
  if (failed_) return;
  if (steps_.size() >= static_cast<std::size_t>(plan_limits::steps)) {
    return fail(at, fmt::format("more than {} steps in one call", plan_limits::steps),
                base::errc::exhausted);
  }
  steps_.push_back(std::move(step));
}

plan_argument evaluator::argument(node_id id, const frame& variables) {
  const expression& node = program_.expressions[static_cast<std::size_t>(id)];
  const value given = evaluate(id, variables);
  if (node.type.is_pointer()) {
    const plan_pointer made = pointer(given);
    if (!failed_) check_range(made, 0, node.at, "an argument");
    return made;
  }
  plan_scalar made;
  made.size = static_cast<std::uint32_t>(size_of(node.type.number));
  if (node.type.number == scalar::float_type) {
    const auto narrow = static_cast<float>(given.real);
    std::memcpy(made.bytes.data(), &narrow, sizeof narrow);
  } else if (node.type.number == scalar::double_type) {
    std::memcpy(made.bytes.data(), &given.real, sizeof given.real);
  } else {
    // The value's low bytes; on a big-endian machine they would be the last ones.
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(made.bytes.data(), given.word.data(), made.size);
  }
  return made;
}

bool evaluator::dimensions(const statement& node, const frame& variables, kernel_launch& made) {
  const value grid = evaluate(node.a, variables);
  const value block = evaluate(node.b, variables);
  const std::int64_t shared = node.c == no_node ? 0 : evaluate(node.c, variables).word[0];
  if (failed_) return false;
  constexpr std::array<std::int64_t, 3> grid_limits{plan_limits::grid_x, plan_limits::grid_yz,
                                                    plan_limits::grid_yz};
  constexpr std::array<std::int64_t, 3> block_limits{plan_limits::block_xy, plan_limits::block_xy,
                                                     plan_limits::block_z};
  for (std::size_t i = 0; i < 3; ++i) {
    const char axis = "xyz"[i];
    if (grid.word[i] < 1 || grid.word[i] > grid_limits[i]) {
      fail(node.at,
           fmt::format("grid.{} is {}: allowed are 1 to {}", axis, grid.word[i], grid_limits[i]));
    } else if (block.word[i] < 1 || block.word[i] > block_limits[i]) {
      fail(node.at, fmt::format("block.{} is {}: allowed are 1 to {}", axis, block.word[i],
                                block_limits[i]));
    }
    made.grid[i] = static_cast<std::uint32_t>(grid.word[i]);
    made.block[i] = static_cast<std::uint32_t>(block.word[i]);
  }
  if (failed_) return false;
  const std::int64_t threads = block.word[0] * block.word[1] * block.word[2];
  if (threads > plan_limits::block_threads) {
    fail(node.at,
         fmt::format("a block of {} threads: at most {}", threads, plan_limits::block_threads));
  }
  if (shared < 0 || shared > plan_limits::shared_bytes) {
    fail(node.at, fmt::format("{} bytes of dynamic shared memory: allowed are 0 to {}",
                              static_cast<std::uint64_t>(shared), plan_limits::shared_bytes));
  }
  made.shared_bytes = static_cast<std::uint32_t>(shared);
  return !failed_;
}

void evaluator::launch(const statement& node, const frame& variables) {
  kernel_launch made;
  made.kernel = node.kernel;
  made.cooperative = node.cooperative;
  if (call_ == nullptr || !dimensions(node, variables, made)) return;
  made.arguments.reserve(node.children.size());
  for (const node_id one : node.children) {
    made.arguments.push_back(argument(one, variables));
    if (failed_) return;
  }
  add(std::move(made), node.at);
}

void evaluator::fill(const statement& node, const frame& variables) {
  memory_set made;
  made.to = pointer(evaluate(node.a, variables));
  const std::int64_t byte = evaluate(node.b, variables).word[0];
  made.bytes = evaluate(node.c, variables).word[0];
  if (failed_ || call_ == nullptr) return;
  if (byte < -128 || byte > 255) {
    return fail(node.at, fmt::format("cudaMemsetAsync sets bytes, {} is none", byte));
  }
  made.value = static_cast<std::uint8_t>(byte);
  if (made.to.buffer == plan_buffer::input) {
    return fail(node.at, "cudaMemsetAsync writes to " + name_of_buffer(made.to));
  }
  // A size_t beyond int64_t reads as negative here.
  if (made.bytes < 0) made.bytes = INT64_MAX;
  if (check_range(made.to, made.bytes, node.at, "what cudaMemsetAsync sets") && made.bytes > 0)
    add(made, node.at);
}

void evaluator::copy(const statement& node, const frame& variables) {
  memory_copy made;
  made.to = pointer(evaluate(node.a, variables));
  made.from = pointer(evaluate(node.b, variables));
  made.bytes = evaluate(node.c, variables).word[0];
  if (failed_ || call_ == nullptr) return;
  if (made.to.buffer == plan_buffer::input) {
    return fail(node.at, "cudaMemcpyAsync writes to " + name_of_buffer(made.to));
  }
  if (made.bytes < 0) made.bytes = INT64_MAX;
  if (!check_range(made.to, made.bytes, node.at, "what cudaMemcpyAsync writes") ||
      !check_range(made.from, made.bytes, node.at, "what cudaMemcpyAsync reads") || made.bytes == 0)
    return;
  const bool one_buffer = made.to.buffer == made.from.buffer && made.to.index == made.from.index;
  if (one_buffer && made.to.offset < made.from.offset + made.bytes &&
      made.from.offset < made.to.offset + made.bytes) {
    return fail(node.at,
                "cudaMemcpyAsync reads and writes the same bytes of " + name_of_buffer(made.to));
  }
  add(made, node.at);
}

void evaluator::require_shared(const statement& node, const frame& variables) {
  const std::int64_t bytes = evaluate(node.a, variables).word[0];
  if (failed_ || (bytes >= 0 && bytes <= plan_limits::shared_bytes)) return;
  fail(node.at, fmt::format("{} bytes of dynamic shared memory: allowed are 0 to {}", bytes,
                            plan_limits::shared_bytes));
}

}  // namespace quern::env::plan
