// Memory that the evaluator owns and its runners see: a memory file, mapped here before it was
// sealed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/file.hpp"
#include "base/status.hpp"
#include "env/runner/protocol.hpp"

namespace quern::env {

/// What a runner may do with a memory file. The seals are Linux's and hold whatever a runner
/// tries: nobody can resize the file; `inputs` can be mapped for writing by nobody any more, since
/// this process had mapped it before.
enum class memory_use { inputs, outputs };

/// Owns a memory file and this process's writable mapping of it. Movable; one thread.
class memory_file {
 public:
  /// `bytes` is rounded up to whole pages; at least one page. The content is zero and takes no
  /// memory before it is touched.
  static base::expected<memory_file> create(memory_use use, std::size_t bytes);

  memory_file(memory_file&& other) noexcept;
  memory_file& operator=(memory_file&& other) noexcept;
  ~memory_file();

  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] memory_use use() const { return use_; }

  /// The message that makes a runner map it as its file `index`, with these ranges accessible
  /// (none given: all of it).
  [[nodiscard]] runner::map_request request(std::uint32_t index,
                                            std::span<const runner::file_range> ranges = {}) const;

  /// Drawn when it was made: by it runners place files that belong together (address_of).
  [[nodiscard]] std::uint64_t place() const { return place_; }

 private:
  memory_file() = default;
  base::unique_fd fd_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  memory_use use_ = memory_use::inputs;
  std::uint64_t place_ = 0;
};

/// Where file `index` of a place lies in a runner: in pages of its own terabyte, drawn by the
/// place. Runners whose times are compared are given one place: where data lie among addresses is
/// worth up to 50 % of a call (docs/performance.md), the same in every window.
std::uint64_t address_of(std::uint64_t place, std::uint32_t index);

inline constexpr std::size_t page_bytes = 4096;

constexpr std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace quern::env
