// Memory that the evaluator owns and its runners see.
#include "env/runner/memory_file.hpp"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/random.hpp"

namespace quern::env {

base::expected<memory_file> memory_file::create(memory_use use, std::size_t bytes) {
  memory_file file;
  file.use_ = use;
  if (getrandom(&file.place_, sizeof file.place_, 0) != sizeof file.place_)
    return base::fail_errno("getrandom");
  file.size_ = round_up(std::max<std::size_t>(bytes, 1), page_bytes);
  file.fd_.reset(memfd_create(use == memory_use::inputs ? "quern-inputs" : "quern-outputs",
                              MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.fd_) return base::fail_errno("memfd_create");
  if (ftruncate(file.fd_.get(), static_cast<off_t>(file.size_)) != 0)
    return base::fail_errno(fmt::format("resizing a memory file to {} bytes", file.size_));
  // Every page will be written: one call is much cheaper than a fault for each.
  void* data = mmap(nullptr, file.size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                    file.fd_.get(), 0);
  if (data == MAP_FAILED) return base::fail_errno(fmt::format("mapping {} bytes", file.size_));
  file.data_ = static_cast<std::byte*>(data);
  int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (use == memory_use::inputs) seals |= F_SEAL_FUTURE_WRITE;
  if (fcntl(file.fd_.get(), F_ADD_SEALS, seals) != 0)
    return base::fail_errno("sealing a memory file (Linux 5.1 or newer is needed)");
  return file;
}

std::uint64_t address_of(std::uint64_t place, std::uint32_t index) {
  constexpr std::uint64_t start = std::uint64_t{1} << 44, each = std::uint64_t{1} << 40;
  // Pages of the first half: no file is longer than the other.
  constexpr std::uint64_t pages = each / 2 / page_bytes;
  return start + index * each +
         base::random_stream(place, "address of a file", {index}).below(pages) * page_bytes;
}

memory_file::memory_file(memory_file&& other) noexcept {
  *this = std::move(other);
}

memory_file& memory_file::operator=(memory_file&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(use_, other.use_);
  std::swap(place_, other.place_);
  return *this;
}

memory_file::~memory_file() {
  if (data_ != nullptr) munmap(data_, size_);
}

runner::map_request memory_file::request(std::uint32_t index,
                                         std::span<const runner::file_range> ranges) const {
  runner::map_request r;
  r.file = index;
  r.writable = use_ == memory_use::outputs ? 1 : 0;
  r.bytes = size_;
  r.address = address_of(place_, index);
  r.range_count = static_cast<std::uint32_t>(std::max<std::size_t>(ranges.size(), 1));
  r.ranges[0] = {0, size_};
  std::copy_n(ranges.begin(), std::min(ranges.size(), r.ranges.size()), r.ranges.begin());
  return r;
}

}  // namespace quern::env
