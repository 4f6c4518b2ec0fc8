// Checks a safetensors file in memory. Every number of the header is an attacker's until it is
// checked.
#include <algorithm>
#include <set>

#include "base/json.hpp"
#include "policy/weights/safetensors.hpp"

namespace quern::policy {

namespace {

using base::errc;
using base::expected;
using base::fail;
using base::json;

constexpr std::size_t prefix_size = 8;

std::uint64_t read_length(std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < prefix_size; ++i)
    length |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return length;
}

/// Like base::parse_json, and a name that occurs twice in one object is an error: nlohmann would
/// keep the last one, another reader the first, and both would load different weights.
expected<json> parse_header(std::string_view text) {
  std::vector<std::set<std::string>> names;
  std::string problem;
  const auto watch = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (names.size() > 4 && problem.empty()) problem = "objects nest too deeply";
    if (event == json::parse_event_t::key && problem.empty() &&
        !names.back().insert(value.get<std::string>()).second)
      problem = fmt::format("'{}' occurs twice", value.get<std::string>());
    return true;
  };
  QUERN_CHECK(base::parse_json(text));  // bounds the nesting and turns exceptions into errors
  json header = json::parse(text, watch);
  if (!problem.empty()) return fail(errc::corrupt, "{}", problem);
  if (!header.is_object()) return fail(errc::corrupt, "the header is not an object");
  return header;
}

expected<std::uint64_t> read_count(const json& value, std::string_view name,
                                   std::string_view what) {
  if (!value.is_number_unsigned())
    return fail(errc::corrupt, "tensor '{}': {} must be numbers from 0, found {}", name, what,
                base::dump(value).substr(0, 60));
  return value.get<std::uint64_t>();
}

/// The range of the tensor in the data part.
struct byte_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

expected<byte_range> read_range(const json& entry, const std::string& name,
                                std::uint64_t data_size) {
  const auto found = entry.find("data_offsets");
  if (found == entry.end() || !found->is_array() || found->size() != 2)
    return fail(errc::corrupt, "tensor '{}': data_offsets must be a list of two numbers", name);
  byte_range range;
  QUERN_TRY(range.begin, read_count((*found)[0], name, "data_offsets"));
  QUERN_TRY(range.end, read_count((*found)[1], name, "data_offsets"));
  if (range.begin > range.end || range.end > data_size)
    return fail(errc::corrupt, "tensor '{}': bytes {} to {} do not lie in the {} bytes of data",
                name, range.begin, range.end, data_size);
  return range;
}

expected<std::uint64_t> read_shape(const json& entry, tensor_view& tensor) {
  const auto found = entry.find("shape");
  if (found == entry.end() || !found->is_array() || found->size() > 8)
    return fail(errc::corrupt, "tensor '{}': shape must be a list of at most eight numbers",
                tensor.name);
  std::uint64_t bytes = size_of(tensor.dtype);
  for (const json& item : *found) {
    QUERN_TRY(const auto extent, read_count(item, tensor.name, "shape"));
    std::uint64_t product = 0;
    if (extent > INT64_MAX || __builtin_mul_overflow(bytes, extent, &product))
      return fail(errc::corrupt, "tensor '{}': shape {} overflows", tensor.name,
                  base::dump(*found));
    bytes = product;
    tensor.shape.push_back(static_cast<std::int64_t>(extent));
  }
  return bytes;
}

expected<tensor_view> read_tensor(const std::string& name, const json& entry,
                                  std::span<const std::byte> data) {
  if (!entry.is_object()) return fail(errc::corrupt, "tensor '{}': not an object", name);
  for (const auto& [key, value] : entry.items())
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      return fail(errc::corrupt, "tensor '{}': unknown key '{}'", name, key);
  QUERN_TRY(const auto dtype_name, base::get<std::string>(entry, "dtype"));
  const auto dtype = dtype_from_safetensors(dtype_name);
  if (!dtype)
    return fail(errc::corrupt, "tensor '{}': dtype is '{}'; F32, BF16 and F16 are read", name,
                dtype_name);
  tensor_view tensor{name, *dtype, {}, {}};
  QUERN_TRY(const auto bytes, read_shape(entry, tensor));
  QUERN_TRY(const auto range, read_range(entry, name, data.size()));
  if (range.end - range.begin != bytes)
    return fail(errc::corrupt, "tensor '{}': {} bytes of data for a shape that needs {}", name,
                range.end - range.begin, bytes);
  tensor.data = data.subspan(range.begin, bytes);
  return tensor;
}

base::status check_cover(const std::vector<tensor_view>& tensors, std::span<const std::byte> data) {
  const std::byte* expected_begin = data.data();
  const std::string* before = nullptr;
  for (const auto& tensor : tensors) {
    if (tensor.data.data() != expected_begin)
      return fail(errc::corrupt, "tensor '{}' {} {}", tensor.name,
                  tensor.data.data() < expected_begin ? "overlaps" : "leaves a hole after",
                  before ? "'" + *before + "'" : "the header");
    expected_begin += tensor.data.size();
    before = &tensor.name;
  }
  const auto rest = data.data() + data.size() - expected_begin;
  if (rest != 0) return fail(errc::corrupt, "{} bytes after the last tensor belong to none", rest);
  return {};
}

}  // namespace

expected<std::vector<tensor_view>> parse_safetensors(std::span<const std::byte> bytes,
                                                     std::map<std::string, std::string>* metadata) {
  if (bytes.size() < prefix_size)
    return fail(errc::corrupt, "{} bytes are too few for a safetensors file", bytes.size());
  const std::uint64_t length = read_length(bytes);
  if (length > max_safetensors_header)
    return fail(errc::corrupt, "the header claims {} bytes; the limit is {}", length,
                max_safetensors_header);
  if (length > bytes.size() - prefix_size)
    return fail(errc::corrupt, "the header claims {} bytes; the file has {} after its length",
                length, bytes.size() - prefix_size);
  const auto text = bytes.subspan(prefix_size, length);
  const auto data = bytes.subspan(prefix_size + length);
  QUERN_TRY(const json header,
            parse_header({reinterpret_cast<const char*>(text.data()), text.size()}));

  std::vector<tensor_view> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") {
      QUERN_TRY(auto tensor, read_tensor(name, entry, data));
      tensors.push_back(std::move(tensor));
      continue;
    }
    if (!entry.is_object()) return fail(errc::corrupt, "__metadata__ is not an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) return fail(errc::corrupt, "__metadata__ '{}' is not text", key);
      if (metadata) metadata->emplace(key, value.get<std::string>());
    }
  }
  // An empty tensor goes before the one that starts where it lies.
  std::sort(tensors.begin(), tensors.end(), [](const tensor_view& a, const tensor_view& b) {
    if (a.data.data() != b.data.data()) return a.data.data() < b.data.data();
    return a.data.size() < b.data.size();
  });
  QUERN_CHECK(check_cover(tensors, data));
  return tensors;
}

}  // namespace quern::policy
