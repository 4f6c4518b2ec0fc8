// A runner's view of the evaluator's memory files.
#include "env/runner/mapping.hpp"

#include <cerrno>

#include <sys/mman.h>

namespace quern::env::runner {
namespace {

constexpr std::size_t page = 4096;

bool valid(const map_request& request) {
  if (request.file >= max_files || request.bytes == 0 || request.bytes % page != 0) return false;
  if (request.range_count == 0 || request.range_count > max_ranges) return false;
  std::uint64_t end = 0;
  for (std::uint32_t i = 0; i < request.range_count; ++i) {
    const auto& range = request.ranges[i];
    if (range.begin % page != 0 || range.bytes % page != 0 || range.bytes == 0) return false;
    if (range.begin < end || range.bytes > request.bytes ||
        range.begin > request.bytes - range.bytes)
      return false;
    end = range.begin + range.bytes;
  }
  return true;
}

}  // namespace

mapped_files::~mapped_files() {
  for (auto& file : files_)
    if (file.reserved != nullptr) munmap(file.reserved, file.reserved_bytes);
}

bool mapped_files::map(const map_request& request, int fd) {
  if (!valid(request)) {
    errno = EINVAL;
    return false;
  }
  auto& file = files_[request.file];
  if (file.reserved != nullptr) munmap(file.reserved, file.reserved_bytes);
  file = {};
  const std::size_t reserved_bytes = request.bytes + 2 * page;
  void* const wanted = reinterpret_cast<void*>(request.address / page * page);
  void* reserved =
      mmap(wanted, reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return false;
  file = {static_cast<std::byte*>(reserved), reserved_bytes, request.bytes};
  const int protection = request.writable != 0 ? PROT_READ | PROT_WRITE : PROT_READ;
  for (std::uint32_t i = 0; i < request.range_count; ++i) {
    const auto& range = request.ranges[i];
    // Populated now, so that no timed call pays for a page fault.
    if (mmap(file.reserved + page + range.begin, range.bytes, protection,
             MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd,
             static_cast<off_t>(range.begin)) == MAP_FAILED)
      return false;
  }
  return true;
}

std::byte* mapped_files::at(std::uint32_t file, std::uint64_t offset) const {
  if (file >= max_files || files_[file].reserved == nullptr || offset >= files_[file].bytes)
    return nullptr;
  return files_[file].reserved + page + offset;
}

}  // namespace quern::env::runner
