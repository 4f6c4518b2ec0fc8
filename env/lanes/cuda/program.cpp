// From a launch plan's symbolic steps to what a runner on a device performs.
#include "env/lanes/cuda/program.hpp"

#include <algorithm>

namespace quern::env {
namespace {

class program_writer {
 public:
  explicit program_writer(const device_instance& of) : instance_(of) {}

  base::status add(const kernel_launch& l) {
    if (l.arguments.size() > QUERN_MOST_PARAMETERS)
      return base::fail(base::errc::invalid_argument,
                        "a launch with {} parameters, the limit is {}", l.arguments.size(),
                        int{QUERN_MOST_PARAMETERS});
    if (l.kernel >= QUERN_MOST_KERNELS)
      return base::fail(base::errc::invalid_argument, "more than {} kernels",
                        int{QUERN_MOST_KERNELS});
    quern_step s = begin(QUERN_STEP_LAUNCH);
    s.kernel = static_cast<std::int32_t>(l.kernel);
    std::copy(l.grid.begin(), l.grid.end(), s.grid);
    std::copy(l.block.begin(), l.block.end(), s.block);
    s.shared_bytes = l.shared_bytes;
    s.cooperative = l.cooperative ? 1 : 0;
    for (const auto& argument : l.arguments)
      std::visit([&](const auto& a) { add_parameter(a); }, argument);
    finish(s);
    return {};
  }

  base::status add(const memory_set& m) {
    quern_step s = begin(QUERN_STEP_SET);
    s.byte = m.value;
    s.bytes = static_cast<std::uint64_t>(m.bytes);
    add_parameter(m.to);
    finish(s);
    return {};
  }

  base::status add(const memory_copy& m) {
    quern_step s = begin(QUERN_STEP_COPY);
    s.bytes = static_cast<std::uint64_t>(m.bytes);
    add_parameter(m.to);
    add_parameter(m.from);
    finish(s);
    return {};
  }

  device_program take() { return std::move(program_); }

 private:
  quern_step begin(std::int32_t kind) const {
    quern_step s{};
    s.kind = kind;
    s.first_parameter = static_cast<std::uint32_t>(program_.parameters.size());
    return s;
  }

  void finish(quern_step s) {
    s.parameters = static_cast<std::uint32_t>(program_.parameters.size()) - s.first_parameter;
    program_.steps.push_back(s);
  }

  void add_parameter(const plan_scalar& number) {
    quern_parameter p{};
    p.bytes = number.size;
    std::copy_n(number.bytes.begin(), number.size, p.raw);
    program_.parameters.push_back(p);
  }

  void add_parameter(const plan_pointer& pointer) {
    quern_parameter p{};
    p.place.region = -1;
    const auto offset = static_cast<std::uint64_t>(pointer.offset);
    switch (pointer.buffer) {
      case plan_buffer::input:
        p.place = {QUERN_INPUTS, 0, instance_.inputs.offset(pointer.index) + offset, 0};
        break;
      case plan_buffer::output:
        p.place = {QUERN_OUTPUTS, 0, instance_.outputs.offset(pointer.index) + offset,
                   instance_.outputs.stride()};
        break;
      case plan_buffer::workspace:
        p.place = {QUERN_WORKSPACE, 0, workspace_offset + offset, 0};
        break;
      case plan_buffer::null:
        break;
    }
    program_.parameters.push_back(p);
  }

  const device_instance& instance_;
  device_program program_;
};

}  // namespace

base::expected<device_program> make_device_program(std::span<const launch_step> steps,
                                                   const device_instance& of) {
  program_writer writer(of);
  for (const auto& step : steps) {
    const auto added = std::visit([&](const auto& s) { return writer.add(s); }, step);
    if (!added) return tl::make_unexpected(added.error());
  }
  return writer.take();
}

}  // namespace quern::env
