// Little-endian encoding of small records, with bounds checked on reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace quern::base {

/// Appends values to a growing buffer.
class byte_writer {
 public:
  void u8(std::uint8_t value);
  void u32(std::uint32_t value);
  void u64(std::uint64_t value);
  void i64(std::int64_t value) { u64(static_cast<std::uint64_t>(value)); }
  /// The bit pattern: infinities and NaN survive.
  void f64(double value);
  /// Length (u32), then the bytes.
  void text(std::string_view value);
  void raw(std::span<const std::byte> bytes);
  [[nodiscard]] const std::string& buffer() const { return buffer_; }
  [[nodiscard]] std::string take() { return std::move(buffer_); }

 private:
  std::string buffer_;
};

/// Reads what byte_writer wrote. Does not own the bytes. Every read beyond the end is `corrupt`.
class byte_reader {
 public:
  explicit byte_reader(std::string_view bytes) : bytes_(bytes) {}
  expected<std::uint8_t> u8();
  expected<std::uint32_t> u32();
  expected<std::uint64_t> u64();
  expected<std::int64_t> i64();
  expected<double> f64();
  /// At most `limit` bytes; the view points into the reader's bytes.
  expected<std::string_view> text(std::size_t limit = 4U << 20U);
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }
  /// An error unless everything was read.
  [[nodiscard]] status finish() const;

 private:
  expected<std::string_view> take(std::size_t count);
  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace quern::base
