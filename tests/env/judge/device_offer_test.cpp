// What evaluator hosts are asked to offer.
#include "env/judge/device_offer.hpp"

#include "support/test.hpp"

using namespace quern;
using namespace quern::env;
using test::contains;

namespace {

/// "cpp, cuda on GPUs".
std::string offered(const std::vector<std::string>& names, const std::vector<int>& gpus) {
  const auto offer = device_offer_of(names, gpus);
  if (!offer) return offer.error().message;
  std::string text;
  for (const auto& [what, on_gpu] : offer->lanes)
    text += (text.empty() ? "" : ", ") + std::string(what->name) + (on_gpu ? " on GPUs" : "");
  return text;
}

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

}  // namespace

TEST_CASE("lanes go to the devices that are named; those of either go to GPUs") {
  CHECK(offered({}, {}) == "cpp");
  CHECK(offered({}, {0}) == "cuda on GPUs");
  CHECK(offered({"pytorch"}, {}) == "pytorch");
  CHECK(offered({"pytorch"}, {0}) == "pytorch on GPUs");
  CHECK(offered({"pytorch", "cuda", "pytorch"}, {0, 1}) == "cuda on GPUs, pytorch on GPUs");
  CHECK(offered({"cpp", "pytorch"}, {1}) == "cpp, pytorch on GPUs");
  CHECK(device_offer_of({"cuda"}, {3, 1, 3})->gpus == std::vector<int>{3, 1});
  CHECK(contains(offered({"cuda", "pytorch"}, {}), "--lanes names cuda, but no GPU is named: add"));
  const std::string of_cores = offered({"cpp"}, {0});
  CHECK(contains(of_cores, "--lanes has no lane that uses them (cpp)"));
  CHECK(contains(of_cores, "add one of cuda, pytorch"));
}

TEST_CASE("several lanes on one GPU need room for each") {
  const auto both = device_offer_of({"cuda", "pytorch"}, {0, 1}).value();
  CHECK(check_room_on_gpu(both, 0, 80 * gib));
  CHECK(check_room_on_gpu(both, 0, 32 * gib));
  const auto small = check_room_on_gpu(both, 1, 24 * gib);
  REQUIRE_FALSE(small);
  CAPTURE(small.error().message);
  CHECK(contains(small.error().message, "GPU 1 for lanes cuda, pytorch: it has 24.0 GiB"));
  CHECK(contains(small.error().message, "need 16 GiB for each"));
  CHECK(contains(small.error().message, "start a host for each lane"));
  // The control: one lane alone, with a core beside it, has no such limit.
  CHECK(check_room_on_gpu(device_offer_of({"cpp", "pytorch"}, {0}).value(), 0, 8 * gib));
}
