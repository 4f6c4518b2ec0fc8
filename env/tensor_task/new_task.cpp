// The commented skeleton of a task file.
#include "env/tensor_task/new_task.hpp"

#include <vector>

#include <fmt/ranges.h>

#include "env/task/task_codec.hpp"
#include "env/tensor_task/dtype.hpp"

namespace quern::env {

namespace {

constexpr std::string_view skeleton = R"yaml(# A task: what a kernel has to compute.
# Change it, then ask `quern tasks check` whether it teaches the right thing.
quern_task: 1
name: @name@                      # the file is called @name@.task.yaml
lane: @lane@                          # @lanes@
family: softmax                    # tasks of one family are held out together
sizes: {n: @n@, m: 1024}            # what is timed; the kernel gets them in this order, as int64_t
# Checked only, never shown to the policy; odd sizes find missing tails.
hidden_sizes: [{n: 3, m: 33}, {n: 17, m: 200}]
inputs:
  # dtype: @dtypes@; shape: integer expressions over the sizes.
  # dist: the first is timed, the others are hidden: normal uniform large sparse sorted constant
  # denormal positive special. Integers need `below: EXPRESSION`; they can be uniform, sparse,
  # sorted or constant.
  - {name: x, dtype: f32, shape: [n, m], dist: [normal, large, sparse, sorted, constant]}
outputs:
  - {name: y, dtype: f32, shape: [n, m]}
tolerance: {atol: 1e-6, rtol: 1e-4}     # |got - want| <= atol + rtol * |want|
baseline: @baseline@                # speed-up is measured against the reference, or against `plain`
# The least that any kernel moves and computes: the floor for its time.
cost: {bytes: 8*n*m, flops: 5*n*m}
# TorchScript: torch.<operator> and methods; no import, no F., nothing in place, nothing random.
# The demo policy reads chains like this one, a step a line, of the steps that suite cpu_quick shows.
reference: |
  def forward(x):
      h = x
      h = torch.softmax(h, -1)
      return h
# The obvious kernel, written as a candidate: needed for `baseline: plain`, useful to start from.
@plain@)yaml";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

base::expected<std::string> new_kernel_task(std::string_view name, const lane& where,
                                            const kernel_task_example& with) {
  std::vector<std::string> lanes;
  for (const lane* one : all_lanes())
    lanes.push_back(fmt::format("{} ({})", one->name, one->summary));
  std::vector<std::string_view> types;
  for (const dtype one : where.element_types)
    types.push_back(name_of(one));
  std::string text(skeleton);
  replace_all(text, "@name@", name);
  replace_all(text, "@lane@", where.name);
  replace_all(text, "@lanes@", fmt::format("{}", fmt::join(lanes, " or ")));
  replace_all(text, "@dtypes@", fmt::format("{}", fmt::join(types, " ")));
  replace_all(text, "@n@", with.rows);
  replace_all(text, "@baseline@", with.plain.empty() ? "reference" : "plain    ");
  replace_all(text, "@plain@", with.plain);
  QUERN_CHECK(parse_task(text));
  return text;
}

}  // namespace quern::env
