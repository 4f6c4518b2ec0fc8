// Frames of the host protocol: "QRN1" | type | JSON header | blobs.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "env/plugin/message.hpp"

namespace quern::env {

inline constexpr std::string_view protocol_magic = "QRN1";
inline constexpr std::size_t max_frame_bytes = 4u << 20;
inline constexpr std::size_t max_header_bytes = 64u << 10;
inline constexpr std::size_t max_frames = 8;

using frames = std::vector<std::string>;

/// The frames of a message. Header values are integers and strings only; 64-bit values are strings
/// of 16 hexadecimal digits and hashes of 32, because not every JSON reader keeps 64 bits. Error:
/// exhausted if a blob or the header is beyond its limit.
base::expected<frames> encode(const message& what);

/// Reads a message from another machine: nothing about it is trusted. A field that is not known is
/// ignored. Errors, each naming what was found:
///   version           the magic is that of another protocol generation, or of none
///   not_found         a type that this version does not know: answer ERROR and go on
///   exhausted         too many frames, a frame or header too large
///   invalid_argument  anything else: fields missing, of a wrong type or out of range, blobs
///   missing
base::expected<message> decode(std::span<const std::string> parts);

}  // namespace quern::env
