// UTF-8, strictly: what is not shortest-form, a surrogate or too large is invalid.
#include "policy/text/utf8.hpp"

#include <algorithm>

namespace quern::policy {

namespace {

constexpr char32_t replacement = 0xFFFD;

/// How a sequence goes on after its first byte: how many bytes follow, and the range of the first
/// of them (Unicode Standard, table 3-7); the others are 80..BF.
struct lead {
  std::size_t follow;
  unsigned char low;
  unsigned char high;
};

constexpr lead lead_of(unsigned char first) {
  if (first < 0x80) return {0, 0, 0};
  if (first >= 0xC2 && first <= 0xDF) return {1, 0x80, 0xBF};
  if (first == 0xE0) return {2, 0xA0, 0xBF};
  if (first == 0xED) return {2, 0x80, 0x9F};
  if (first >= 0xE1 && first <= 0xEF) return {2, 0x80, 0xBF};
  if (first == 0xF0) return {3, 0x90, 0xBF};
  if (first >= 0xF1 && first <= 0xF3) return {3, 0x80, 0xBF};
  if (first == 0xF4) return {3, 0x80, 0x8F};
  return {0, 1, 0};  // no sequence starts so
}

/// Length of the longest prefix of text[at...] that is the beginning of a valid sequence, and
/// whether it is all of it.
struct prefix {
  std::size_t size;
  bool complete;
};

prefix valid_prefix(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const lead shape = lead_of(byte(at));
  if (shape.follow == 0) return {shape.low > shape.high ? 0U : 1U, shape.low <= shape.high};
  for (std::size_t i = 1; i <= shape.follow; ++i) {
    if (at + i >= text.size()) return {i, false};
    const unsigned char low = i == 1 ? shape.low : 0x80;
    const unsigned char high = i == 1 ? shape.high : 0xBF;
    if (byte(at + i) < low || byte(at + i) > high) return {i, false};
  }
  return {shape.follow + 1, true};
}

}  // namespace

utf8_char decode_utf8(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1, true};
  const prefix found = valid_prefix(text, at);
  if (!found.complete) return {first, 1, false};
  char32_t code = first & (0xFFU >> (found.size + 1));
  for (std::size_t i = 1; i < found.size; ++i)
    code = (code << 6U) | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
  return {code, static_cast<std::uint8_t>(found.size), true};
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | (code >> 6U));
  } else {
    if (code < 0x10000) {
      put(0xE0 | (code >> 12U));
    } else {
      put(0xF0 | (code >> 18U));
      put(0x80 | ((code >> 12U) & 0x3FU));
    }
    put(0x80 | ((code >> 6U) & 0x3FU));
  }
  put(0x80 | (code & 0x3FU));
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const utf8_char c = decode_utf8(text, at);
    if (!c.valid) return false;
    at += c.size;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size();) {
    const prefix found = valid_prefix(bytes, at);
    if (found.complete)
      out.append(bytes.substr(at, found.size));
    else
      append_utf8(out, replacement);
    at += std::max<std::size_t>(found.size, 1);
  }
  return out;
}

std::string utf8_stream::push(std::string_view bytes) {
  pending_.append(bytes);
  // Only the last three bytes can begin a character that more bytes would complete.
  std::size_t keep = 0;
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, pending_.size()); ++back) {
    const std::size_t at = pending_.size() - back;
    const prefix found = valid_prefix(pending_, at);
    if (!found.complete && found.size == back) keep = back;
  }
  const std::string rest = pending_.substr(pending_.size() - keep);
  pending_.resize(pending_.size() - keep);
  std::string out = replace_invalid_utf8(pending_);
  pending_ = rest;
  return out;
}

std::string utf8_stream::finish() {
  std::string out = replace_invalid_utf8(pending_);
  pending_.clear();
  return out;
}

}  // namespace quern::policy
