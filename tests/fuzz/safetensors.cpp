// Weights of models from elsewhere.
#include "policy/weights/safetensors.hpp"

#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  const auto bytes = std::as_bytes(std::span(text));
  std::map<std::string, std::string> metadata;
  const auto tensors = policy::parse_safetensors(bytes, &metadata);
  if (!tensors) {
    require(!tensors.error().message.empty(), "an error has a message");
    return;
  }
  const std::byte* at = nullptr;
  for (const policy::tensor_view& one : *tensors) {
    std::uint64_t size = policy::size_of(one.dtype);
    for (const std::int64_t extent : one.shape)
      size *= static_cast<std::uint64_t>(extent);
    require(size == one.data.size(), "a tensor has the bytes of its shape");
    require(one.data.data() >= bytes.data() &&
                one.data.data() + one.data.size() <= bytes.data() + bytes.size(),
            "tensors lie in the file");
    require(at == nullptr || one.data.data() == at, "one behind the other");
    at = one.data.data() + one.data.size();
  }
  require(at == nullptr || at == bytes.data() + bytes.size(), "nothing stands behind the last");
}
