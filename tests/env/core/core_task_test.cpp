// Cases that differ in one element, for every type.
#include "env/core/core_task.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "support/test.hpp"

using namespace quern::env;

namespace {

constexpr std::array all_types{dtype::f32, dtype::f64,  dtype::i32, dtype::i64,
                               dtype::u8,  dtype::bf16, dtype::f16};

task_instance one_input(dtype type, std::int64_t elements) {
  tensor_layout x;
  x.name = "x";
  x.type = type;
  x.shape = {elements};
  x.elements = elements;
  x.bytes = elements * static_cast<std::int64_t>(size_of(type));
  x.below = is_floating(type) ? 0 : 100;
  task_instance at;
  at.inputs = {x};
  return at;
}

std::int64_t changed_elements(const tensor_bytes& before, const tensor_bytes& after,
                              std::size_t width) {
  std::int64_t changed = 0;
  for (std::size_t at = 0; at < before.size(); at += width)
    changed += std::memcmp(before.data() + at, after.data() + at, width) != 0 ? 1 : 0;
  return changed;
}

}  // namespace

TEST_CASE("one element of one input is another, drawn or of equal ones, and no byte beside it") {
  for (const dtype type : all_types)
    for (const bool equal : {false, true})
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(name_of(type));
        CAPTURE(equal);
        const auto at = one_input(type, 5);
        const auto kind = equal ? distribution::constant : distribution::uniform;
        std::vector<tensor_bytes> inputs{
            tensor_bytes(static_cast<std::size_t>(at.inputs[0].bytes))};
        REQUIRE(fill_input(at.inputs[0], kind, {seed, 0, 0}, inputs[0]));
        const auto before = inputs[0];
        change_one_element(at, inputs, seed);
        CHECK(changed_elements(before, inputs[0], size_of(type)) == 1);
      }
}

TEST_CASE("the memory of cases is that of inputs and outputs") {
  expected_size size;
  size.cases.push_back({"a", {tensor_bytes(3)}, {tensor_bytes(4), tensor_bytes(5)}});
  size.cases.push_back({"b", {}, {tensor_bytes(1)}});
  CHECK(bytes_of(size) == 13);
}

TEST_CASE("a task whose calls do not fit into the machine's memory is refused with both sizes") {
  task_instance at = one_input(dtype::f32, std::int64_t{1} << 28);  // 1 GiB
  at.outputs = at.inputs;
  CHECK(bytes_of_call(at) == std::int64_t{2} << 30);
  const std::int64_t kept = 2 * bytes_of_call(at);
  CHECK(check_room(at, kept, {std::int64_t{12} << 30, ""}));
  const auto refused = check_room(at, kept, {(std::int64_t{12} << 30) - 1, "/groups/memory.max"});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == quern::base::errc::exhausted);
  for (const char* part : {"2.0 GiB", "about 12.0 GiB", "/groups/memory.max", "sizes smaller"}) {
    CAPTURE(refused.error().message);
    CHECK(quern::test::contains(refused.error().message, part));
  }
}
