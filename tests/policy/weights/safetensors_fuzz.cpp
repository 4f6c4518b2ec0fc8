// Damaged safetensors files: whatever the bytes are, the parser answers, and what it accepts lies
// inside.
#include <random>

#include "base/file.hpp"
#include "policy/weights/safetensors.hpp"
#include "support/test.hpp"

using namespace quern::policy;

namespace {

/// Every view lies in the bytes, and its size is what its shape says: what the reader's users rely
/// on.
bool sound(const std::vector<tensor_view>& tensors, std::span<const std::byte> bytes) {
  for (const auto& tensor : tensors) {
    std::uint64_t size = size_of(tensor.dtype);
    for (const std::int64_t extent : tensor.shape)
      size *= static_cast<std::uint64_t>(extent);
    if (size != tensor.data.size()) return false;
    if (tensor.data.data() < bytes.data() ||
        tensor.data.data() + tensor.data.size() > bytes.data() + bytes.size())
      return false;
  }
  return true;
}

}  // namespace

TEST_CASE("mutated files never escape their bounds") {
  const auto file =
      quern::test::source_dir() / "tests/golden/policy/models/qwen3_bfloat16/model.safetensors";
  auto whole = quern::base::read_file(file);
  REQUIRE(whole);
  std::uint64_t header = 0;
  for (std::size_t i = 0; i < 8; ++i)
    header |= static_cast<std::uint64_t>(static_cast<unsigned char>((*whole)[i])) << (8 * i);
  std::mt19937_64 random(20261121);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string alphabet = "0123456789-.,:[]{}\"\\eEFB_ \xFF";
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = *whole;
    const std::size_t changes = 1 + below(4);
    for (std::size_t i = 0; i < changes; ++i) {
      const std::size_t at = below(8 + header);
      switch (below(4)) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = alphabet[below(alphabet.size())];
          break;
        case 2:
          bytes.insert(at, 1, alphabet[below(alphabet.size())]);
          break;
        default:
          bytes.erase(at, 1 + below(3));
          break;
      }
    }
    if (below(8) == 0) bytes.resize(below(bytes.size()));
    const auto view = std::as_bytes(std::span(bytes));
    const auto parsed = parse_safetensors(view);
    ++(parsed ? accepted : refused);
    if (parsed) CHECK(sound(*parsed, view));
  }
  MESSAGE("accepted " << accepted << ", refused " << refused);
  CHECK(refused > 1000);
}

TEST_CASE("random headers never escape their bounds") {
  std::mt19937_64 random(7);
  const auto pick = [&](auto... values) {
    const std::string options[] = {values...};
    return options[random() % sizeof...(values)];
  };
  const auto number = [&] {
    return pick("0", "1", "2", "4", "8", "16", "18446744073709551615", "-1", "1e9",
                "4611686018427387904");
  };
  int accepted = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string header = "{";
    const int entries = static_cast<int>(random() % 4);
    for (int i = 0; i < entries; ++i) {
      if (i > 0) header += ",";
      header += "\"" + pick("a", "b", "c", "__metadata__") + "\":{\"dtype\":\"" +
                pick("F32", "BF16", "F16", "I8") + "\",\"shape\":[" +
                (random() % 3 == 0 ? number() : number() + "," + number()) +
                "],\"data_offsets\":[" + number() + "," + number() + "]}";
    }
    header += "}";
    std::string bytes;
    for (int i = 0; i < 8; ++i)
      bytes.push_back(static_cast<char>(header.size() >> (8 * i)));
    bytes += header + std::string(random() % 20, 'x');
    const auto view = std::as_bytes(std::span(bytes));
    const auto parsed = parse_safetensors(view);
    if (parsed) {
      ++accepted;
      CHECK(sound(*parsed, view));
    }
  }
  CHECK(accepted > 0);
}
