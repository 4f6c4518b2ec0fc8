// The evaluator's side of one device: memory that it owns and lends to runners, content of tensors,
// and checks of what runners left there. Wraps env/device/context_part.h of libquern_cuda.so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/device/context_part.h"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {

class device_context;

/// Device memory of its own allocation. Given back with this object, which must go before its
/// context.
class device_allocation {
 public:
  device_allocation() = default;
  device_allocation(device_allocation&& other) noexcept;
  device_allocation& operator=(device_allocation&& other) noexcept;
  ~device_allocation();

  [[nodiscard]] std::uint64_t address() const { return allocation_.address; }
  [[nodiscard]] std::uint64_t bytes() const { return allocation_.bytes; }
  [[nodiscard]] int fd() const { return allocation_.fd; }
  [[nodiscard]] bool empty() const { return context_ == nullptr; }

 private:
  friend class device_context;
  device_context* context_ = nullptr;
  quern_allocation allocation_{0, 0, 0, -1};
};

/// Memory of the host that copies to and from the device read and write. Given back with this
/// object, which must go before its context.
class pinned_memory {
 public:
  pinned_memory() = default;
  pinned_memory(pinned_memory&& other) noexcept;
  pinned_memory& operator=(pinned_memory&& other) noexcept;
  ~pinned_memory();

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  friend class device_context;
  device_context* context_ = nullptr;
  std::span<std::byte> bytes_;
};

/// What one check found: how many elements are wrong, and the first of them.
struct device_finding {
  std::uint64_t wrong = 0;
  std::uint64_t first = 0;
  [[nodiscard]] bool clean() const { return wrong == 0; }
};

/// One device as the evaluator uses it. One thread at a time. Everything that does not return a
/// value is queued and runs in order, send() and fetch() in an order of their own; an error of one
/// is reported by wait().
class device_context {
 public:
  /// Loads libquern_cuda.so from beside the running program. Errors say what is missing.
  static base::expected<std::unique_ptr<device_context>> open(int device);
  /// The same by another file, which must be of this build, too.
  static base::expected<std::unique_ptr<device_context>> open(int device,
                                                              const std::filesystem::path& library);
  /// Ends this process's CUDA context on the device, with whatever error it has. Contexts that are
  /// open there have lost it: nothing may be asked of them any more.
  static base::status end_cuda_context(int device);
  /// The same by another file.
  static base::status end_cuda_context(int device, const std::filesystem::path& library);
  /// Whether its CUDA context was ended: there is nothing to do but to open another context.
  [[nodiscard]] bool lost_cuda_context() const;
  ~device_context();
  device_context(const device_context&) = delete;
  device_context& operator=(const device_context&) = delete;

  [[nodiscard]] const quern_context_facts& facts() const { return facts_; }
  [[nodiscard]] int device() const { return device_; }
  /// Of the whole device, whoever uses it.
  base::expected<std::uint64_t> free_bytes();

  /// At least `bytes`, at least one unit.
  base::expected<device_allocation> allocate(std::uint64_t bytes);

  void fill(std::uint64_t address, const quern_content& what);
  /// Elements [first, first + count) alone.
  void fill_some(std::uint64_t address, const quern_content& what, std::int64_t first,
                 std::int64_t count);
  void set(std::uint64_t address, std::uint64_t bytes, std::uint32_t word);
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);

  /// Each adds one finding to what the next wait() returns.
  void compare(std::uint64_t got, std::uint64_t want, const tensor_layout& layout,
               const tolerance& limit, bool want_is_f64 = false);
  void same_bits(std::uint64_t a, std::uint64_t b, const tensor_layout& layout);
  void check_content(std::uint64_t address, const quern_content& what);
  void check_pattern(std::uint64_t address, std::uint64_t bytes, std::uint32_t word);

  /// Waits for everything queued; the findings in the order in which the checks were made.
  base::expected<std::vector<device_finding>> wait();

  base::status read(std::span<std::byte> to, std::uint64_t from);
  base::status write(std::uint64_t to, std::span<const std::byte> from);
  /// So many bytes of the host. Error: the host has not so much.
  base::expected<pinned_memory> pin(std::uint64_t bytes);
  /// Rows between the device and pinned memory, by an engine of the device that does nothing else:
  /// another process's context stays on the device meanwhile, if send() has two rows or more.
  /// Queued beside the rest.
  void send(std::uint64_t to, const std::byte* from, const quern_byte_rows& rows);
  void fetch(std::byte* to, std::uint64_t from, const quern_byte_rows& rows);
  /// Waits for these alone. An error of one is reported by the next wait().
  void wait_for_copies();
  /// Rows within the device, queued with the rest; `pitch` on both sides. Does nothing where
  /// `width` or `rows` is 0.
  void copy_rows(std::uint64_t to, std::uint64_t from, std::uint64_t width, std::uint64_t rows,
                 std::uint64_t pitch);

  /// Bytes a second, reads and writes counted, of a copy with this footprint.
  base::expected<double> bandwidth(std::uint64_t bytes);

 private:
  friend class device_allocation;
  friend class pinned_memory;
  struct functions;
  device_context() = default;
  void note(std::int32_t result);
  void release(quern_allocation& allocation);
  void unpin(std::byte* memory);
  [[nodiscard]] base::error problem() const;

  std::shared_ptr<const functions> call_;
  quern_context* context_ = nullptr;
  int device_ = 0;
  std::uint64_t contexts_before_ = 0;  ///< of this process, that were ended on the device
  quern_context_facts facts_{};
  std::string failed_;  ///< message of the first queued step that failed since the last wait
};

/// Content of one input: distribution `kind`, by the secret key; `stream` tells one set from
/// another.
quern_content content_of(const tensor_layout& layout, distribution kind, std::uint64_t key,
                         std::uint64_t stream);

}  // namespace quern::env
