// Where the tensors of a call lie in a memory file.
#include "env/runner/arena.hpp"

#include <algorithm>
#include <cstring>

#include "env/judge/judge_layer.hpp"

namespace quern::env {
namespace {

constexpr std::size_t alignment = 256;
constexpr unsigned char canary = 0xA5;

std::size_t bytes_of(const tensor_layout& t) {
  return static_cast<std::size_t>(t.bytes);
}

bool all_canary(const std::byte* data, std::size_t size) {
  if (size == 0) return true;
  return data[0] == std::byte{canary} && std::memcmp(data, data + 1, size - 1) == 0;
}

}  // namespace

std::size_t tensor_arena::slot_bytes(std::span<const tensor_layout> tensors) {
  std::size_t total = alignment;
  for (const auto& t : tensors)
    total += round_up(bytes_of(t), alignment) + alignment;
  return total;
}

base::expected<tensor_arena> tensor_arena::create(memory_use use,
                                                  std::span<const tensor_layout> tensors,
                                                  std::int64_t slots) {
  if (tensors.empty() || tensors.size() > static_cast<std::size_t>(runner::max_tensors) ||
      slots < 1)
    return base::fail(base::errc::invalid_argument,
                      "{} tensors in {} slots; 1 to {} tensors are possible", tensors.size(), slots,
                      runner::max_tensors);
  std::vector<std::size_t> offsets;
  std::vector<std::pair<std::size_t, std::size_t>> gaps;
  std::vector<runner::file_range> ranges;
  std::size_t end = 0, total = 0, stride = 0;
  if (slots == 1) {
    for (const auto& t : tensors) {
      const std::size_t pages = round_up(std::max<std::size_t>(bytes_of(t), 1), page_bytes);
      const std::size_t offset = total + (pages - bytes_of(t)) / alignment * alignment;
      ranges.push_back({total, pages});
      gaps.emplace_back(total, offset);
      offsets.push_back(offset);
      gaps.emplace_back(offset + bytes_of(t), total + pages);
      total += pages + page_bytes;  // the page between faults
    }
  } else {
    end = alignment;
    for (const auto& t : tensors) {
      offsets.push_back(end);
      end += round_up(bytes_of(t), alignment) + alignment;
    }
    stride = end;
    total = round_up(stride * static_cast<std::size_t>(slots), page_bytes);
    ranges.push_back({0, total});
    std::size_t at = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      gaps.emplace_back(at, offsets[i]);
      at = offsets[i] + bytes_of(tensors[i]);
    }
    gaps.emplace_back(at, stride);
  }
  QUERN_TRY(auto file, memory_file::create(use, total));
  tensor_arena arena(std::move(file));
  arena.tensors_.assign(tensors.begin(), tensors.end());
  arena.offsets_ = std::move(offsets);
  arena.gaps_ = std::move(gaps);
  arena.ranges_ = std::move(ranges);
  arena.stride_ = stride;
  arena.slots_ = slots;
  return arena;
}

std::span<std::byte> tensor_arena::at(std::size_t t, std::int64_t slot) const {
  return file_.bytes().subspan(offsets_[t] + static_cast<std::size_t>(slot) * stride_,
                               bytes_of(tensors_[t]));
}

void tensor_arena::arm(std::int64_t slot) const {
  std::byte* base = file_.bytes().data() + static_cast<std::size_t>(slot) * stride_;
  for (const auto& [begin, end] : gaps_)
    std::memset(base + begin, canary, end - begin);
}

int tensor_arena::touched_canary(std::int64_t slot) const {
  const std::byte* base = file_.bytes().data() + static_cast<std::size_t>(slot) * stride_;
  for (const auto& [begin, end] : gaps_)
    if (!all_canary(base + begin, end - begin)) return nearest_tensor(begin);
  return -1;
}

int tensor_arena::nearest_tensor(std::uint64_t offset) const {
  if (stride_ != 0) offset %= stride_;
  int best = -1;
  for (std::size_t i = 0; i < offsets_.size(); ++i)
    if (offsets_[i] <= offset || best < 0) best = static_cast<int>(i);
  // In front of the first tensor of a page range: it belongs to the tensor that follows.
  for (std::size_t i = 0; i < ranges_.size() && slots_ == 1; ++i)
    if (offset >= ranges_[i].begin && offset < ranges_[i].begin + ranges_[i].bytes)
      best = static_cast<int>(i);
  return best;
}

runner::map_request tensor_arena::request(std::uint32_t index) const {
  return file_.request(index, ranges_);
}

runner::map_request tensor_arena::request(std::uint32_t index, const tensor_arena& inputs) const {
  auto r = request(index);
  r.address = address_of(inputs.place(), index);
  return r;
}

void tensor_arena::place(std::uint32_t index, std::span<runner::tensor_place> places) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    auto& p = places[i];
    p = {};
    p.file = index;
    p.type = static_cast<std::uint32_t>(tensors_[i].type);
    p.offset = offsets_[i];
    p.stride = stride_;
    p.rank = static_cast<std::uint32_t>(tensors_[i].shape.size());
    std::copy_n(tensors_[i].shape.begin(), std::min(tensors_[i].shape.size(), p.shape.size()),
                p.shape.begin());
  }
}

base::expected<tensor_arena> make_input_arena(const task_instance& instance, std::int64_t slots) {
  const auto use = judges_with(judge_layer::read_only) ? memory_use::inputs : memory_use::outputs;
  if (!instance.inputs.empty()) return tensor_arena::create(use, instance.inputs, slots);
  tensor_layout nothing;
  nothing.name = "nothing";
  nothing.bytes = 4;
  return tensor_arena::create(memory_use::inputs, std::span(&nothing, 1), slots);
}

base::expected<runner::call_plan> make_plan(const task_instance& instance,
                                            const tensor_arena& inputs,
                                            const tensor_arena& outputs) {
  const std::size_t tensors = instance.inputs.size() + instance.outputs.size();
  if (tensors > runner::max_tensors || instance.sizes.size() > runner::max_sizes)
    return base::fail(base::errc::invalid_argument,
                      "a task with {} tensors and {} sizes; the limits are {} and {}", tensors,
                      instance.sizes.size(), runner::max_tensors, runner::max_sizes);
  runner::call_plan plan;
  plan.inputs = static_cast<std::uint32_t>(instance.inputs.size());
  plan.outputs = static_cast<std::uint32_t>(instance.outputs.size());
  plan.sizes = static_cast<std::uint32_t>(instance.sizes.size());
  std::copy(instance.sizes.begin(), instance.sizes.end(), plan.size_values.begin());
  if (plan.inputs > 0) inputs.place(0, std::span(plan.tensors).first(plan.inputs));
  outputs.place(1, std::span(plan.tensors).subspan(plan.inputs, plan.outputs));
  return plan;
}

}  // namespace quern::env
