// What runners are told of a task: places, content, calls, orders. From the suites of lane cuda.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "env/device/gpu_class.hpp"
#include "env/gpu/calls.hpp"
#include "env/gpu/timed_windows.hpp"
#include "env/lanes/cuda/cuda_evaluator.hpp"
#include "env/task/suite.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/float_bits.hpp"
#include "support/tensor_task.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

env::task cuda_task(const std::string& name) {
  return env::load_task(test::source_dir() / "env/suites/cuda" / (name + ".task.yaml")).value();
}

void check_tensors(const env::task& what, const env::device_instance& d) {
  const auto& t = d.tensors;
  REQUIRE(static_cast<std::size_t>(t.inputs) == env::tensors_of(what).inputs.size());
  REQUIRE(static_cast<std::size_t>(t.outputs) == env::tensors_of(what).outputs.size());
  for (std::size_t i = 0; i < env::tensors_of(what).inputs.size(); ++i) {
    const auto& layout = d.at.inputs[i];
    CHECK(t.input_offset[i] == d.inputs.offset(i));
    CHECK(t.content[i].elements == layout.elements);
    CHECK(t.content[i].type == static_cast<std::int32_t>(layout.type));
    CHECK(t.content[i].row >= 1);
    CHECK(layout.elements % t.content[i].row == 0);
    CHECK((layout.shape.empty() || t.content[i].row == layout.shape.back()));
    CHECK(t.content[i].below == (env::is_floating(layout.type) ? 1 : layout.below));
  }
  for (std::size_t o = 0; o < env::tensors_of(what).outputs.size(); ++o) {
    const auto bytes = static_cast<std::uint64_t>(d.at.outputs[o].bytes);
    CHECK(t.output_offset[o] == d.outputs.offset(o));
    CHECK(t.output_bytes[o] % 4 == 0);
    CHECK(t.output_bytes[o] >= bytes);
    CHECK(t.output_bytes[o] < bytes + 4);
  }
  CHECK(t.output_stride == d.outputs.stride());
}

void check_rounds(const env::task& what, const env::device_instance& d) {
  REQUIRE(d.rounds.size() == static_cast<std::size_t>(1 + env::hidden_rounds(what)));
  for (std::size_t r = 0; r < d.rounds.size(); ++r) {
    const auto kinds = r == 0 ? env::timed_distributions(what)
                              : env::hidden_distributions(what, static_cast<int>(r) - 1);
    for (std::size_t i = 0; i < kinds.size(); ++i)
      CHECK(d.tensors.kinds[r][i] == static_cast<std::int32_t>(kinds[i]));
  }
}

void check_request(const env::task& what, const env::device_instance& d) {
  const auto r = env::call_request(d, true);
  CHECK(r.inputs == env::tensors_of(what).inputs.size());
  CHECK(r.outputs == env::tensors_of(what).outputs.size());
  REQUIRE(r.sizes == d.at.sizes.size());
  CHECK(std::equal(d.at.sizes.begin(), d.at.sizes.end(), r.size_values.begin()));
  CHECK(r.has_workspace == 1);
  CHECK(env::call_request(d, false).has_workspace == 0);
  CHECK(r.in_f64 == 0);
  CHECK(r.under_graph == 0);
  for (std::size_t n = 0;
       n < env::tensors_of(what).inputs.size() + env::tensors_of(what).outputs.size(); ++n) {
    const bool input = n < env::tensors_of(what).inputs.size();
    const std::size_t own = input ? n : n - env::tensors_of(what).inputs.size();
    const auto& layout = input ? d.at.inputs[own] : d.at.outputs[own];
    const auto& place = r.tensors[n];
    CHECK(place.file == (input ? QUERN_INPUTS : QUERN_OUTPUTS));
    CHECK(place.offset == (input ? d.inputs : d.outputs).offset(own));
    CHECK(place.stride == (input ? 0 : d.outputs.stride()));
    CHECK(place.type == static_cast<std::uint32_t>(layout.type));
    REQUIRE(place.rank == layout.shape.size());
    CHECK(std::equal(layout.shape.begin(), layout.shape.end(), place.shape.begin()));
  }
}

bool is_nan_everywhere(std::uint32_t word) {
  const auto half = static_cast<std::uint16_t>(word);
  return std::isnan(std::bit_cast<float>(word)) && std::isnan(env::from_bf16(half)) &&
         std::isnan(env::from_f16(half));
}

bool is_finite_everywhere(std::uint32_t word) {
  const auto half = static_cast<std::uint16_t>(word);
  return std::isfinite(std::bit_cast<float>(word)) && std::isfinite(env::from_bf16(half)) &&
         std::isfinite(env::from_f16(half));
}

}  // namespace

TEST_CASE("every task of the cuda suites becomes an instance at all of its sizes") {
  std::size_t instances = 0;
  for (const auto* name : {"cuda", "cuda_quick"}) {
    const auto suite = env::load_suite(test::source_dir() / "env/suites" / name).value();
    for (const auto& member : suite.members) {
      CAPTURE(member.task.name);
      auto all = env::tensors_of(member.task).hidden_sizes;
      all.push_back(env::tensors_of(member.task).sizes);
      for (const auto& sizes : all) {
        const auto d = env::make_device_instance(member.task, sizes);
        REQUIRE_MESSAGE(d.has_value(), (d ? "" : d.error().message));
        check_tensors(member.task, *d);
        check_rounds(member.task, *d);
        check_request(member.task, *d);
        ++instances;
      }
    }
  }
  CHECK(instances > 200);
}

TEST_CASE("rounds are named by their distributions") {
  const auto softmax = cuda_task("softmax_rows_f32");
  CHECK(env::make_device_instance(softmax, env::tensors_of(softmax).sizes)->rounds ==
        std::vector<std::string>{"normal", "large", "sparse", "sorted", "constant"});
  const auto norm = cuda_task("add_rms_norm_f16");
  const auto rounds = env::make_device_instance(norm, env::tensors_of(norm).sizes)->rounds;
  CHECK(rounds[0] == "normal");
  CHECK(rounds[1] == "large/uniform");
}

TEST_CASE("an instance asks for its inputs once, for outputs by slot, and for some workspace") {
  const auto what = cuda_task("add_rms_norm_f16");
  const auto d = env::make_device_instance(what, env::tensors_of(what).hidden_sizes[0]).value();
  const auto needs = d.needs(5, 13);
  CHECK(needs.inputs == d.inputs.stride());
  CHECK(needs.outputs == 5 * d.outputs.stride());
  // Between two guards.
  CHECK(needs.workspace == 4096 + 16 + 4096);
  CHECK(d.needs(1, 0).workspace == 4096 + 4096);
  CHECK(env::call_request(d, true).workspace_offset == 4096);
  CHECK(d.tensors.workspace_offset == 4096);
}

TEST_CASE("a task with more tensors than a window holds is refused") {
  auto what = cuda_task("softmax_rows_f32");
  auto& many = test::edit_tensors(what).inputs;
  many.resize(33, many[0]);
  const auto d = env::make_device_instance(what, env::tensors_of(what).sizes);
  REQUIRE_FALSE(d.has_value());
  CHECK(d.error().code == base::errc::invalid_argument);
  CHECK(test::contains(d.error().message, "33 inputs"));
}

TEST_CASE("fresh orders repeat neither keys nor streams, and their poison cannot be known") {
  env::order_maker orders(7), same(7), other(8);
  std::set<std::uint64_t> keys, streams;
  std::set<std::uint32_t> poisons;
  constexpr int count = 20'000;
  int nan = 0;
  for (int i = 0; i < count; ++i) {
    const auto o = orders.fresh(i % 5, i % 112);
    CHECK(o.round == i % 5);
    CHECK(o.slot == i % 112);
    CHECK(o.changed_input == -1);
    CHECK(same.fresh(i % 5, i % 112).key == o.key);
    keys.insert(o.key);
    streams.insert(o.stream);
    poisons.insert(o.poison);
    // What a kernel leaves out shows as NaN or as some number, in every type.
    CHECK((is_nan_everywhere(o.poison) || is_finite_everywhere(o.poison)));
    nan += is_nan_everywhere(o.poison) ? 1 : 0;
  }
  CHECK(keys.size() == count);
  CHECK(streams.size() == count);
  // Of the NaN half, 14 bits are free.
  CHECK(poisons.size() > count * 3 / 4);
  CHECK(nan > count * 48 / 100);
  CHECK(nan < count * 52 / 100);
  CHECK(keys.count(other.fresh(0, 0).key) == 0);
}

TEST_CASE("`again` keeps the content, in another slot and on other poison") {
  env::order_maker orders(9);
  int same_poison = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto first = orders.fresh(i % 3, 0);
    const auto second = orders.again(first, 4);
    CHECK(second.key == first.key);
    CHECK(second.stream == first.stream);
    CHECK(second.round == first.round);
    CHECK(second.changed_input == first.changed_input);
    CHECK(second.slot == 4);
    same_poison += second.poison == first.poison ? 1 : 0;
  }
  CHECK(same_poison <= 1);
}

TEST_CASE("`changed` changes one element of one input, any of them") {
  const auto what = cuda_task("add_rms_norm_f16");
  const auto d = env::make_device_instance(what, env::tensors_of(what).hidden_sizes[0]).value();
  env::order_maker orders(10);
  std::vector<std::set<std::int64_t>> seen(d.at.inputs.size());
  for (int i = 0; i < 1000; ++i) {
    const auto first = orders.fresh(0, 0);
    const auto o = orders.changed(first, d, 1);
    CHECK(o.key == first.key);
    CHECK(o.stream == first.stream);
    CHECK(o.changed_stream != first.stream);
    REQUIRE(o.changed_input >= 0);
    REQUIRE(static_cast<std::size_t>(o.changed_input) < seen.size());
    const auto input = static_cast<std::size_t>(o.changed_input);
    CHECK(o.changed_count == 1);
    CHECK(o.changed_first >= 0);
    CHECK(o.changed_first < d.at.inputs[input].elements);
    CHECK(o.changed_kind == d.tensors.kinds[0][input]);
    seen[input].insert(o.changed_first);
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    CHECK(static_cast<std::int64_t>(seen[i].size()) == d.at.inputs[i].elements);
  // Without inputs there is nothing to change.
  CHECK(orders.changed(orders.fresh(0, 0), {}, 0).changed_input == -1);
}

TEST_CASE("planted elements lie inside their input and come from another of its distributions") {
  const auto what = cuda_task("add_rms_norm_f16");
  const auto d = env::make_device_instance(what, env::tensors_of(what).hidden_sizes[1]).value();
  env::order_maker orders(11);
  std::set<std::int32_t> inputs;
  int planted = 0, single = 0;
  constexpr int count = 4000;
  for (int i = 0; i < count; ++i) {
    const auto first = orders.fresh(0, 0);
    auto o = first;
    orders.plant(o, d);
    CHECK(o.key == first.key);
    CHECK(o.stream == first.stream);
    CHECK(o.poison == first.poison);
    if (o.changed_input < 0) continue;
    ++planted;
    REQUIRE(static_cast<std::size_t>(o.changed_input) < d.at.inputs.size());
    const auto elements = d.at.inputs[static_cast<std::size_t>(o.changed_input)].elements;
    inputs.insert(o.changed_input);
    CHECK(o.changed_first >= 0);
    CHECK(o.changed_count >= 1);
    REQUIRE(o.changed_run >= 1);
    CHECK(o.changed_stride >= o.changed_run);
    const auto behind_first = (o.changed_count - 1) / o.changed_run * o.changed_stride;
    CHECK(o.changed_first + behind_first + (o.changed_count - 1) % o.changed_run < elements);
    CHECK(o.changed_count <= std::max<std::int64_t>(1, elements / 4));
    CHECK(o.changed_kind != d.tensors.kinds[0][o.changed_input]);
    CHECK(o.changed_stream != o.stream);
    single += o.changed_run == 1 ? 1 : 0;
  }
  CHECK(planted == count);
  CHECK(inputs.size() == d.at.inputs.size());
  CHECK(single > planted / 3);
  CHECK(single < planted * 9 / 10);
  // A task that knows one distribution has nothing to plant.
  auto plain = what;
  for (auto& input : test::edit_tensors(plain).inputs)
    input.dists.resize(1);
  const auto one = env::make_device_instance(plain, env::tensors_of(plain).hidden_sizes[1]).value();
  for (int i = 0; i < 100; ++i) {
    auto o = orders.fresh(0, 0);
    orders.plant(o, one);
    CHECK(o.changed_input == -1);
  }
}

TEST_CASE("a window has the calls that its length, its memory and its limit allow") {
  constexpr std::uint64_t gib = std::uint64_t{1} << 30U;
  CHECK(env::calls_per_gpu_window(20e3, 1e6, 1, gib) == 50);
  CHECK(env::calls_per_gpu_window(30e3, 1e6, 1, gib) == 34);
  CHECK(env::calls_per_gpu_window(1e9, 1e6, 1, gib) == 1);
  CHECK(env::calls_per_gpu_window(1, 1e6, 1, gib) == QUERN_MOST_CALLS);
  CHECK(env::calls_per_gpu_window(0, 1e6, 0, gib) == QUERN_MOST_CALLS);
  CHECK(env::calls_per_gpu_window(20e3, 1e6, gib / 7, gib) == 7);
  CHECK(env::calls_per_gpu_window(20e3, 1e6, 2 * gib, gib) == 1);
}

TEST_CASE("a runner has lent memory at the addresses of the one that it is compared with") {
  int drawn = 0;
  const auto next = [&](const env::region_mapping& has, std::uint64_t making, bool elsewhere,
                        const env::region_mapping* other) {
    return env::mapping_to_make(has, making, elsewhere, other, [&] {
      ++drawn;
      return env::region_mapping{0, 77, 78};
    });
  };
  const env::region_mapping here{5, 40, 41}, there{5, 60, 61}, other_region{6, 60, 61};
  // As it has it.
  CHECK_FALSE(next(here, 5, false, nullptr));
  const env::region_mapping same_place{6, 40, 41}, not_mapped;
  CHECK_FALSE(next(here, 5, false, &same_place));
  CHECK_FALSE(next(here, 5, false, &not_mapped));
  CHECK(drawn == 0);
  // As the other has it, though it is mapped, and whatever making the other's is.
  for (const auto* other : {&there, &other_region}) {
    const auto where = next(here, 5, false, other);
    REQUIRE(where);
    CHECK(where->making == 5);
    CHECK(where->at == 60);
    CHECK(where->writable_at == 61);
  }
  CHECK(drawn == 0);
  // Anywhere: never mapped, made anew, moved, or beside one that has nothing.
  for (const auto& where : {next(not_mapped, 5, false, nullptr), next(here, 6, false, nullptr),
                            next(here, 5, true, nullptr), next(here, 6, false, &not_mapped)}) {
    REQUIRE(where);
    CHECK(where->at == 77);
  }
  CHECK(drawn == 4);
}

TEST_CASE("one call without time is enough, however long the others claim to be") {
  env::window_times times;
  times.call_ns = {1, 4'294'967'295, 32};
  CHECK_FALSE(env::claims_no_time(times));
  times.call_ns[0] = 0;
  CHECK(env::claims_no_time(times));
}

TEST_CASE("device classes are named as contracts name them") {
  CHECK(env::gpu_device_class("NVIDIA H200") == "H200-SXM");
  CHECK(env::gpu_device_class("NVIDIA H100 80GB HBM3") == "H100-SXM");
  CHECK(env::gpu_device_class("H200") == "H200-SXM");
  CHECK(env::peak_bf16_flops(env::gpu_device_class("NVIDIA H200")) == 989.4e12);
  CHECK(env::peak_bf16_flops(env::gpu_device_class("NVIDIA A100-SXM4-80GB")) == 312e12);
  CHECK_FALSE(env::peak_bf16_flops(env::gpu_device_class("NVIDIA GeForce of next year")));
  CHECK(env::gpu_device_class("NVIDIA H100 PCIe") == "H100-PCIe");
  CHECK(env::gpu_device_class("NVIDIA RTX 6000 Ada Generation") == "RTX-6000-Ada-Generation");
  CHECK(env::gpu_device_class("NVIDIA GH200/480GB") == "GH200-480GB");
}
