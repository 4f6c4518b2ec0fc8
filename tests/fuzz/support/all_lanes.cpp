// Lanes for readers: facts alone. Nothing here opens a judge.
#include <array>

#include "env/lanes/pytorch/tasks/pytorch_body.hpp"
#include "env/task/lane.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {

namespace {

constexpr std::array all_types{dtype::f32, dtype::f64,  dtype::i32, dtype::i64,
                               dtype::u8,  dtype::bf16, dtype::f16};
constexpr std::array<std::string_view, 1> paired{"paired/1"};

constexpr lane reader_lane(std::string_view name, device_kind device, const body_format& body,
                           std::size_t types) {
  return {.name = name,
          .summary = name,
          .language = name,
          .file_ending = ".txt",
          .fence = {},
          .device = device,
          .usual_device_class = name,
          .body = &body,
          .tasks_from = nullptr,
          .element_types = std::span(all_types).first(types),
          .baselines = {},
          .protocols = paired,
          .host_code_is_optional = false,
          .least_baseline_ns = 1,
          .usual_recheck_above_e2 = 300,
          .corpus_tasks_ahead = 0,
          .identity = nullptr,
          .entry = nullptr,
          .optional_entry = nullptr,
          .restrictions = nullptr,
          .advice = nullptr,
          .new_task = nullptr,
          .open_judge = nullptr,
          .open_checker = nullptr,
          .open_quick_checker = nullptr,
          .check_programs = nullptr,
          .try_compiler = nullptr,
          .device_class = nullptr,
          .grammar = nullptr};
}

constexpr lane on_core = reader_lane("cpp", device_kind::core, tensor_format, 5);
constexpr lane on_gpu = reader_lane("cuda", device_kind::gpu, tensor_format, all_types.size());
constexpr lane of_modules = reader_lane("pytorch", device_kind::core, pytorch_format, 0);

}  // namespace

std::span<const lane* const> all_lanes() {
  static constexpr std::array<const lane*, 3> all{&on_core, &on_gpu, &of_modules};
  return all;
}

}  // namespace quern::env
