// The artefact of a candidate in device-only form: machine code and the symbols of its kernels.
//
//   quern_device_code 1
//   architecture sm_90a
//   kernels 2
//   softmax<256, float><TAB>_Z7softmaxILi256EfEvPKT0_PS0_ll
//   scale<TAB>_Z5scalePfl
//   code 12345
//   <12345 bytes: a cubin>
//
// Lines end with one line feed; nothing stands behind the code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::env {

struct device_kernel {
  std::string name;    ///< name expression, as it was asked for
  std::string symbol;  ///< what the driver knows it by (cuModuleGetFunction)
  friend bool operator==(const device_kernel&, const device_kernel&) = default;
};

struct device_code {
  std::string architecture;  ///< "sm_90a"
  std::vector<device_kernel> kernels;
  /// The machine code is [offset, offset + bytes) of the file.
  std::size_t offset = 0;
  std::size_t bytes = 0;
  friend bool operator==(const device_code&, const device_code&) = default;
};

inline constexpr std::size_t most_device_kernels = 1024;

/// The file for `what` (offset and bytes are not read) and `code`. Error (invalid_argument): a name
/// or symbol with a tab, line feed or zero byte, or too many kernels.
base::expected<std::string> write_device_code(const device_code& what, std::string_view code);

/// Reads a whole file. Errors: corrupt, or version. Linear in the bytes; believes no number in
/// them.
base::expected<device_code> read_device_code(std::string_view file);

}  // namespace quern::env
