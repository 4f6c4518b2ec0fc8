// Each message's fields, named once: the same list writes and reads them.
#include "env/plugin/message_codec.hpp"

#include <charconv>
#include <utility>

#include <fmt/core.h>

#include "base/json.hpp"

namespace quern::env {

using base::errc;
using base::fail;
using base::json;

namespace {

constexpr std::size_t longest_name = 4096;
constexpr std::size_t most_entries = 256;
constexpr std::int64_t largest_integer = std::int64_t{1} << 53;  // exact in every JSON reader

class writer {
 public:
  json header = json::object();
  std::vector<std::string> blobs;

  void integer(const char* name, const std::int64_t& value) { header[name] = value; }
  /// 0 is left out.
  void optional_integer(const char* name, const std::int64_t& value) {
    if (value != 0) header[name] = value;
  }
  void word(const char* name, const std::uint64_t& value) {
    header[name] = fmt::format("{:016x}", value);
  }
  void hash(const char* name, const base::hash128& value) { header[name] = base::to_hex(value); }
  void text(const char* name, const std::string& value) { header[name] = value; }
  void texts(const char* name, const std::vector<std::string>& values) { header[name] = values; }
  void devices(const char* name, const std::vector<host_device>& values) {
    auto list = json::array();
    for (const auto& device : values) {
      list.push_back({{"id", device.id}, {"class", device.device_class}, {"slots", device.slots}});
      if (!device.lanes.empty()) list.back()["lanes"] = device.lanes;
    }
    header[name] = std::move(list);
  }
  /// Empty is left out.
  void optional_text(const char* name, const std::string& value) {
    if (!value.empty()) header[name] = value;
  }
  /// None is left out.
  void quarantined(const char* name, const std::vector<quarantined_device>& values) {
    for (const auto& device : values)
      header[name].push_back(
          {{"device", device.device}, {"reason", device.reason}, {"for_ms", device.for_ms}});
  }
  void blob(const char*, const std::string& value) { blobs.push_back(value); }
};

/// Keeps the first error; after it, every read does nothing.
class reader {
 public:
  reader(const json& header, std::span<const std::string> blobs) : header_(header), blobs_(blobs) {}

  base::status result;

  void integer(const char* name, std::int64_t& value) {
    const auto* found = field(name);
    if (found == nullptr) return;
    take(*found, name, value);
  }
  void optional_integer(const char* name, std::int64_t& value) {
    if (header_.contains(name)) integer(name, value);
  }
  void word(const char* name, std::uint64_t& value) {
    const auto* found = string(name, 16);
    if (found == nullptr) return;
    const auto [end, error] =
        std::from_chars(found->data(), found->data() + found->size(), value, 16);
    if (found->empty() || error != std::errc() || end != found->data() + found->size()) {
      refuse(name, *found, "1 to 16 hexadecimal digits");
    }
  }
  void hash(const char* name, base::hash128& value) {
    const auto* found = string(name, 32);
    if (found == nullptr) return;
    const auto parsed = base::parse_hash(*found);
    if (parsed) {
      value = *parsed;
    } else {
      refuse(name, *found, "32 hexadecimal digits");
    }
  }
  void text(const char* name, std::string& value) {
    const auto* found = string(name, longest_name);
    if (found != nullptr) value = *found;
  }
  void texts(const char* name, std::vector<std::string>& values) {
    const auto* found = array(name);
    if (found == nullptr) return;
    for (const auto& entry : *found) {
      if (!entry.is_string()) return refuse(name, base::dump(entry), "a list of strings");
      values.push_back(entry.get<std::string>());
    }
  }
  void devices(const char* name, std::vector<host_device>& values) {
    const auto* found = array(name);
    if (found == nullptr) return;
    for (const auto& entry : *found) {
      if (!entry.is_object()) return refuse(name, base::dump(entry), "a list of devices");
      reader inner(entry, {});
      host_device device;
      inner.integer("id", device.id);
      inner.text("class", device.device_class);
      inner.integer("slots", device.slots);
      if (entry.contains("lanes")) inner.texts("lanes", device.lanes);
      if (!inner.result) {
        result = base::in_context(name, inner.result.error());
        return;
      }
      values.push_back(std::move(device));
    }
  }
  void optional_text(const char* name, std::string& value) {
    if (header_.contains(name)) text(name, value);
  }
  void quarantined(const char* name, std::vector<quarantined_device>& values) {
    if (!header_.contains(name)) return;
    const auto* found = array(name);
    if (found == nullptr) return;
    for (const auto& entry : *found) {
      if (!entry.is_object()) return refuse(name, base::dump(entry), "a list of devices");
      reader inner(entry, {});
      quarantined_device device;
      inner.integer("device", device.device);
      inner.text("reason", device.reason);
      inner.integer("for_ms", device.for_ms);
      if (!inner.result) {
        result = base::in_context(name, inner.result.error());
        return;
      }
      values.push_back(std::move(device));
    }
  }
  void blob(const char* name, std::string& value) {
    if (!result) return;
    if (next_blob_ >= blobs_.size()) {
      result = fail(errc::invalid_argument, "the frame with the {} is missing", name);
      return;
    }
    value = blobs_[next_blob_++];
  }

 private:
  const json* field(const char* name) {
    if (!result) return nullptr;
    const auto found = header_.find(name);
    if (found != header_.end()) return &*found;
    result = fail(errc::invalid_argument, "field '{}' is missing", name);
    return nullptr;
  }
  const std::string* string(const char* name, std::size_t longest) {
    const auto* found = field(name);
    if (found == nullptr) return nullptr;
    const auto* text = found->get_ptr<const std::string*>();
    if (text != nullptr && text->size() <= longest) return text;
    refuse(name, base::dump(*found), fmt::format("a string of at most {} bytes", longest));
    return nullptr;
  }
  const json* array(const char* name) {
    const auto* found = field(name);
    if (found == nullptr) return nullptr;
    if (found->is_array() && found->size() <= most_entries) return found;
    refuse(name, base::dump(*found), fmt::format("a list of at most {} entries", most_entries));
    return nullptr;
  }
  void take(const json& found, const char* name, std::int64_t& value) {
    const bool fits =
        found.is_number_unsigned()
            ? found.get<std::uint64_t>() <= static_cast<std::uint64_t>(largest_integer)
            : found.is_number_integer() && found.get<std::int64_t>() >= -largest_integer;
    if (fits) {
      value = found.get<std::int64_t>();
    } else {
      refuse(name, base::dump(found), "an integer within 2^53");
    }
  }
  void refuse(const char* name, const std::string& found, std::string_view wanted) {
    if (!result) return;
    result = fail(errc::invalid_argument, "field '{}' is {}; it must be {}", name,
                  found.substr(0, 80), wanted);
  }

  const json& header_;
  std::span<const std::string> blobs_;
  std::size_t next_blob_ = 0;
};

template <class A>
void fields(A& io, auto& m) {
  using T = std::remove_cvref_t<decltype(m)>;
  if constexpr (requires { m.session; }) io.word("session", m.session);
  if constexpr (requires { m.lease; }) io.word("lease", m.lease);
  if constexpr (std::is_same_v<T, hello_message>) {
    io.integer("proto_min", m.proto_min);
    io.integer("proto_max", m.proto_max);
    io.text("build", m.build);
    io.word("nonce", m.nonce);
    io.texts("lanes", m.lanes);
    io.devices("devices", m.devices);
    io.optional_integer("pid", m.pid);
    io.optional_text("name", m.name);
    io.optional_integer("start", m.start);
  } else if constexpr (std::is_same_v<T, welcome_message>) {
    io.word("nonce", m.nonce);
    io.integer("proto", m.proto);
    io.integer("lease_ms", m.lease_ms);
    io.integer("heartbeat_ms", m.heartbeat_ms);
    io.optional_text("run", m.run);
  } else if constexpr (std::is_same_v<T, refused_message>) {
    io.text("code", m.code);
    io.text("text", m.text);
    io.text("hint", m.hint);
  } else if constexpr (std::is_same_v<T, credit_message>) {
    io.integer("device", m.device);
    io.integer("n", m.n);
  } else if constexpr (std::is_same_v<T, job_message>) {
    io.integer("device", m.device);
    io.text("lane", m.lane);
    io.word("sample", m.sample);
    io.integer("attempt", m.attempt);
    io.integer("deadline_ms", m.deadline_ms);
    io.text("protocol", m.protocol);
    io.hash("task_hash", m.task_hash);
    io.hash("source_hash", m.source_hash);
    io.word("seed", m.seed);
    io.integer("recheck", m.recheck);
    io.integer("best_known_e2", m.best_known_e2);
    io.integer("recheck_above_e2", m.recheck_above_e2);
    io.optional_text("policy", m.policy);
    io.optional_integer("claim_e2", m.claim_e2);
    io.blob("source", m.source);
  } else if constexpr (std::is_same_v<T, need_message>) {
    io.hash("task_hash", m.task_hash);
  } else if constexpr (std::is_same_v<T, task_message>) {
    io.hash("task_hash", m.task_hash);
    io.blob("task", m.text);
  } else if constexpr (std::is_same_v<T, verdict_message>) {
    io.blob("verdict", m.verdict);
  } else if constexpr (std::is_same_v<T, verdict_ack_message>) {
    io.integer("accepted", m.accepted);
  } else if constexpr (std::is_same_v<T, failed_message>) {
    io.text("reason", m.reason);
    io.optional_integer("returned", m.returned);
  } else if constexpr (std::is_same_v<T, cancel_message>) {
    io.integer("device", m.device);
  } else if constexpr (std::is_same_v<T, heartbeat_message>) {
    io.quarantined("quarantined", m.quarantined);
  } else if constexpr (std::is_same_v<T, bye_message>) {
    io.integer("drain", m.drain);
  } else if constexpr (std::is_same_v<T, error_message>) {
    io.text("code", m.code);
    io.text("text", m.text);
  }
}

template <std::size_t I = 0>
base::expected<message> read_as(std::string_view type, const json& header,
                                std::span<const std::string> blobs) {
  if constexpr (I == std::variant_size_v<message>) {
    return fail(errc::not_found, "message type '{}' is not known to host protocol {}",
                type.substr(0, 40), newest_protocol);
  } else {
    message candidate(std::in_place_index<I>);
    if (type_of(candidate) != type) return read_as<I + 1>(type, header, blobs);
    reader in(header, blobs);
    fields(in, std::get<I>(candidate));
    if (!in.result) return base::in_context(type, in.result.error());
    return candidate;
  }
}

}  // namespace

base::expected<frames> encode(const message& what) {
  writer out;
  std::visit([&](const auto& m) { fields(out, m); }, what);
  frames parts{std::string(protocol_magic), std::string(type_of(what)), base::dump(out.header)};
  if (parts[2].size() > max_header_bytes) {
    return fail(errc::exhausted, "the header of {} has {} bytes; the limit is {}", parts[1],
                parts[2].size(), max_header_bytes);
  }
  for (auto& blob : out.blobs) {
    if (blob.size() > max_frame_bytes) {
      return fail(errc::exhausted, "a blob of {} has {} bytes; the limit is {}", parts[1],
                  blob.size(), max_frame_bytes);
    }
    parts.push_back(std::move(blob));
  }
  return parts;
}

base::expected<message> decode(std::span<const std::string> parts) {
  if (parts.empty() || parts[0] != protocol_magic) {
    return fail(errc::version, "the message does not begin with '{}'; it is not of host protocol 1",
                protocol_magic);
  }
  if (parts.size() < 3) {
    return fail(errc::invalid_argument,
                "a message has {} frames; at least magic, type and header are needed",
                parts.size());
  }
  if (parts.size() > max_frames) {
    return fail(errc::exhausted, "a message has {} frames; the limit is {}", parts.size(),
                max_frames);
  }
  for (const auto& part : parts) {
    if (part.size() > max_frame_bytes) {
      return fail(errc::exhausted, "a frame has {} bytes; the limit is {}", part.size(),
                  max_frame_bytes);
    }
  }
  if (parts[2].size() > max_header_bytes) {
    return fail(errc::exhausted, "a header has {} bytes; the limit is {}", parts[2].size(),
                max_header_bytes);
  }
  QUERN_TRY(const auto header, base::parse_json(parts[2]));
  if (!header.is_object()) return fail(errc::invalid_argument, "the header is not a JSON object");
  return read_as(parts[1], header, parts.subspan(3));
}

}  // namespace quern::env
