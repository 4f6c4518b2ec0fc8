// What each command carries: the size of its body, and whether a descriptor comes with it. One
// table for every runner, in C++ and in Python (env/gpu/compiled_process.cpp hands it on).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "env/runner/gpu_protocol.hpp"
#include "env/runner/protocol.hpp"

namespace quern::env::runner {

enum class descriptor_rule : std::uint32_t { none, optional, needed };

struct command_rule {
  command command_id = command::map;
  /// Bytes of the body; but for a window the two are the same.
  std::size_t least_bytes = 0;
  std::size_t most_bytes = 0;
  descriptor_rule descriptor = descriptor_rule::none;
};

template <class Body>
constexpr command_rule carries(command what, descriptor_rule descriptor = descriptor_rule::none) {
  return {what, sizeof(Body), sizeof(Body), descriptor};
}

/// By number of the command.
inline constexpr std::array command_rules{
    carries<map_request>(command::map, descriptor_rule::needed),
    carries<load_request>(command::load),
    carries<script_request>(command::script),
    carries<call_plan>(command::workspace),
    carries<call_plan>(command::plan),
    carries<run_request>(command::run),
    command_rule{command::flush},
    carries<gpu_open_request>(command::gpu_open),
    carries<gpu_import_request>(command::gpu_import, descriptor_rule::needed),
    // Device code comes in a file, a shared object came with gpu_lock.
    carries<gpu_load_request>(command::gpu_load, descriptor_rule::optional),
    carries<gpu_tensors_request>(command::gpu_tensors, descriptor_rule::needed),
    carries<gpu_program_request>(command::gpu_program, descriptor_rule::needed),
    carries<gpu_call_request>(command::gpu_call),
    command_rule{command::gpu_window, gpu_window_request::bytes_for(0), sizeof(gpu_window_request)},
    command_rule{command::gpu_deliver},
    command_rule{command::gpu_drop},
    carries<gpu_lock_request>(command::gpu_lock, descriptor_rule::needed),
    carries<lane_request>(command::ask_lane),
};

static_assert(command_rules.size() == static_cast<std::size_t>(command::ask_lane) + 1);
static_assert([] {
  for (std::size_t i = 0; i < command_rules.size(); ++i)
    if (command_rules[i].command_id != static_cast<command>(i)) return false;
  return true;
}());

/// Of a command that exists.
constexpr const command_rule& rule_of(command what) {
  return command_rules[static_cast<std::size_t>(what)];
}

}  // namespace quern::env::runner
