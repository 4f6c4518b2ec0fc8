// Element types have one dispatch, and what is no element type is an error, never right.
#include "env/tensor_task/elements.hpp"

#include <stdexcept>
#include <vector>

#include "env/judge/compare.hpp"
#include "env/tensor_task/task_instance.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;

namespace {

constexpr auto no_type = static_cast<dtype>(7);

std::vector<dtype> all_types() {
  std::vector<dtype> types;
  for (const char* name : {"f32", "f64", "i32", "i64", "u8", "bf16", "f16"})
    types.push_back(parse_dtype(name).value());
  return types;
}

template <class Call>
std::string thrown_by(Call call) {
  try {
    call();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("each element type is visited as what it is stored as") {
  for (const dtype type : all_types()) {
    CAPTURE(name_of(type));
    visit_element(type, [&](auto element) {
      using T = decltype(element);
      CHECK(sizeof(T) == size_of(type));
      CHECK(is_floating_element<T> == is_floating(type));
      CHECK((mantissa_bits<T> > 0) == is_floating(type));
      CHECK(value_of(element_from<T>(value_type_of<T>{1})) == value_type_of<T>{1});
    });
  }
  CHECK(static_cast<int>(all_types().back()) + 1 == static_cast<int>(no_type));
}

TEST_CASE("what is no element type is an error, and no tensor of it is right") {
  const auto said = [](auto call) {
    return test::contains(thrown_by(call), "element type number 7, but there are 7");
  };
  CHECK(said([] { visit_element(no_type, [](auto) {}); }));
  CHECK(said([] { (void)size_of(no_type); }));
  tensor_layout layout;
  layout.name = "y";
  layout.shape = {2};
  layout.elements = 2;
  layout.bytes = 8;
  const std::vector<std::byte> zeros(8), ones(8, std::byte{1});
  CHECK(compare_tensor(layout, {0, 0}, ones, zeros).has_value());
  CHECK_FALSE(compare_tensor(layout, {0, 0}, zeros, zeros).has_value());
  layout.type = no_type;
  CHECK(said([&] { (void)compare_tensor(layout, {0, 0}, zeros, zeros); }));
  CHECK(said([&] { (void)compare_bits(layout, ones, zeros); }));
}
