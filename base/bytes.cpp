#include "base/bytes.hpp"

#include <bit>

namespace quern::base {

void byte_writer::u8(std::uint8_t value) {
  buffer_.push_back(static_cast<char>(value));
}

void byte_writer::u32(std::uint32_t value) {
  for (int i = 0; i < 4; ++i)
    buffer_.push_back(static_cast<char>(value >> (8 * i)));
}

void byte_writer::u64(std::uint64_t value) {
  for (int i = 0; i < 8; ++i)
    buffer_.push_back(static_cast<char>(value >> (8 * i)));
}

void byte_writer::f64(double value) {
  u64(std::bit_cast<std::uint64_t>(value));
}

void byte_writer::text(std::string_view value) {
  u32(static_cast<std::uint32_t>(value.size()));
  buffer_.append(value);
}

void byte_writer::raw(std::span<const std::byte> bytes) {
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

expected<std::string_view> byte_reader::take(std::size_t count) {
  if (count > left()) {
    return fail(errc::corrupt, "record ends early: {} bytes needed at offset {}, {} left", count,
                at_, left());
  }
  const std::string_view piece = bytes_.substr(at_, count);
  at_ += count;
  return piece;
}

namespace {

std::uint64_t little_endian(std::string_view piece) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(piece[i])) << (8 * i);
  }
  return value;
}

}  // namespace

expected<std::uint8_t> byte_reader::u8() {
  QUERN_TRY(const auto piece, take(1));
  return static_cast<std::uint8_t>(little_endian(piece));
}

expected<std::uint32_t> byte_reader::u32() {
  QUERN_TRY(const auto piece, take(4));
  return static_cast<std::uint32_t>(little_endian(piece));
}

expected<std::uint64_t> byte_reader::u64() {
  QUERN_TRY(const auto piece, take(8));
  return little_endian(piece);
}

expected<std::int64_t> byte_reader::i64() {
  QUERN_TRY(const auto value, u64());
  return static_cast<std::int64_t>(value);
}

expected<double> byte_reader::f64() {
  QUERN_TRY(const auto value, u64());
  return std::bit_cast<double>(value);
}

expected<std::string_view> byte_reader::text(std::size_t limit) {
  QUERN_TRY(const auto size, u32());
  if (size > limit) {
    return fail(errc::corrupt, "text of {} bytes at offset {}, at most {} allowed", size, at_,
                limit);
  }
  return take(size);
}

status byte_reader::finish() const {
  if (left() != 0)
    return fail(errc::corrupt, "{} bytes left over at the end of the record", left());
  return {};
}

}  // namespace quern::base
