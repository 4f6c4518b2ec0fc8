// Memory for ATen in a reference runner.
#include "env/reference/pool_allocator.hpp"

#include <cstdlib>
#include <cstring>
#include <new>
#include <unordered_map>
#include <vector>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace quern::env {
namespace {

constexpr std::size_t alignment = 64;

/// Stands in front of every block, one alignment long.
struct block_head {
  std::size_t size;
};

std::unordered_map<std::size_t, std::vector<void*>> free_blocks;
std::int64_t blocks = 0;

std::size_t rounded(std::size_t bytes) {
  const std::size_t step = bytes < 4096 ? alignment : 4096;
  return (bytes + step - 1) / step * step;
}

void give_back(void* data) {
  if (data == nullptr) return;
  void* block = static_cast<std::byte*>(data) - alignment;
  free_blocks[static_cast<block_head*>(block)->size].push_back(block);
}

class pool final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &give_back, c10::Device(c10::DeviceType::CPU)};
    const std::size_t size = rounded(bytes);
    auto& list = free_blocks[size];
    void* block = nullptr;
    if (!list.empty()) {
      block = list.back();
      list.pop_back();
    } else {
      block = std::aligned_alloc(alignment, (size + 2 * alignment - 1) / alignment * alignment);
      if (block == nullptr) throw std::bad_alloc();
      static_cast<block_head*>(block)->size = size;
      ++blocks;
    }
    void* data = static_cast<std::byte*>(block) + alignment;
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    std::memcpy(to, from, count);
  }
};

}  // namespace

void use_pool_allocator() {
  static pool instance;
  c10::SetCPUAllocator(&instance, 255);
}

std::int64_t pool_blocks() {
  return blocks;
}

}  // namespace quern::env
