#include "storage/event_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace quern::storage {
namespace {

/// Of every file's name: readers look for the part "tfevents".
constexpr std::string_view name_start = "events.out.tfevents.";

// Fields of event.proto and summary.proto (tensorflow).
constexpr std::uint32_t event_wall_time = 1, event_step = 2, event_file_version = 3,
                        event_summary = 5, event_session_log = 7;
constexpr std::uint32_t summary_value = 1, value_tag = 1, value_simple = 2;
constexpr std::uint32_t session_status = 1, status_start = 1;

// Wire types of protobuf.
constexpr std::uint32_t varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5;

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t rest = i;
    for (int bit = 0; bit < 8; ++bit)
      rest = (rest & 1U) != 0 ? rest >> 1U ^ 0x82f63b78U : rest >> 1U;
    table[i] = rest;
  }
  return table;
}();

template <class Number>
void put_fixed(std::string& out, Number value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof bytes);
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U)
    out.push_back(static_cast<char>(value | 0x80U));
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, std::uint32_t field, std::uint32_t type) {
  put_varint(out, field << 3U | type);
}

void put_text(std::string& out, std::uint32_t field, std::string_view text) {
  put_key(out, field, delimited);
  put_varint(out, text.size());
  out += text;
}

std::string event_at(double wall_time) {
  std::string event;
  put_key(event, event_wall_time, fixed64);
  put_fixed(event, wall_time);
  return event;
}

std::string event_at(double wall_time, std::int64_t step) {
  std::string event = event_at(wall_time);
  put_key(event, event_step, varint);
  put_varint(event, static_cast<std::uint64_t>(step));
  return event;
}

/// Masked, as checksums that are stored beside what they are of are in TFRecord.
std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

/// One above the highest number that a file of the folder has.
std::int64_t next_number(const std::filesystem::path& folder) {
  std::int64_t highest = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(name_start)) continue;
    std::int64_t number = 0;
    std::from_chars(name.data() + name_start.size(), name.data() + name.size(), number);
    highest = std::max(highest, number);
  }
  return highest + 1;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t rest = ~0U;
  for (const char byte : bytes)
    rest = crc_table[(rest ^ static_cast<unsigned char>(byte)) & 0xffU] ^ rest >> 8U;
  return ~rest;
}

std::string tf_record(std::string_view payload) {
  static_assert(std::endian::native == std::endian::little);
  std::string record;
  put_fixed(record, static_cast<std::uint64_t>(payload.size()));
  put_fixed(record, masked_crc32c(record));
  record += payload;
  put_fixed(record, masked_crc32c(payload));
  return record;
}

std::string version_event(double wall_time) {
  std::string event = event_at(wall_time);
  put_text(event, event_file_version, "brain.Event:2");
  return event;
}

std::string restart_event(double wall_time, std::int64_t step) {
  std::string event = event_at(wall_time, step), log;
  put_key(log, session_status, varint);
  put_varint(log, status_start);
  put_text(event, event_session_log, log);
  return event;
}

std::string scalars_event(double wall_time, std::int64_t step,
                          std::span<const series_value> values) {
  std::string event = event_at(wall_time, step), summary;
  for (const series_value& one : values) {
    std::string value;
    put_text(value, value_tag, one.name);
    put_key(value, value_simple, fixed32);
    put_fixed(value, static_cast<float>(one.value));
    put_text(summary, summary_value, value);
  }
  put_text(event, event_summary, summary);
  return event;
}

base::status event_writer::make_file() {
  QUERN_CHECK(base::make_folders(folder_));
  // Names sort as numbers do, and no clock decides about the order.
  path_ = folder_ / fmt::format("{}{:010}.quern", name_start, next_number(folder_));
  file_ = base::unique_fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file_) return base::fail_errno("cannot make " + path_.string());
  size_ = 0;
  return {};
}

base::status event_writer::append(std::int64_t step, std::span<const series_value> values,
                                  double wall_time) {
  if (!file_) QUERN_CHECK(make_file());
  std::string records;
  if (size_ == 0) records += tf_record(version_event(wall_time));
  if (!last_step_ || step <= *last_step_) records += tf_record(restart_event(wall_time, step));
  records += tf_record(scalars_event(wall_time, step, values));
  if (auto written = base::write_all(file_.get(), records); !written) {
    // Behind half a record readers find nothing more: what follows goes into another file.
    if (::ftruncate(file_.get(), size_) != 0 || ::lseek(file_.get(), size_, SEEK_SET) != size_)
      file_.reset();
    return base::in_context("scalars for " + path_.string(), written.error());
  }
  size_ += static_cast<std::int64_t>(records.size());
  last_step_ = step;
  return {};
}

base::status event_writer::sync() {
  if (file_ && ::fdatasync(file_.get()) != 0)
    return base::fail_errno("cannot sync " + path_.string());
  return {};
}

}  // namespace quern::storage
