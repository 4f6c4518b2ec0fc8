// The evaluator's side of one device.
#include "env/gpu/device_context.hpp"

#include <array>
#include <atomic>
#include <filesystem>
#include <utility>

#include <dlfcn.h>

#include "base/log.hpp"
#include "base/program.hpp"
#include "env/device/part_build.hpp"

namespace quern::env {

struct device_context::functions {
  decltype(&::quern_context_open) open = nullptr;
  decltype(&::quern_context_close) close = nullptr;
  decltype(&::quern_context_end_cuda) end_cuda_context = nullptr;
  decltype(&::quern_context_problem) problem = nullptr;
  decltype(&::quern_context_facts_of) facts_of = nullptr;
  decltype(&::quern_context_free_bytes) free_bytes = nullptr;
  decltype(&::quern_context_allocate) allocate = nullptr;
  decltype(&::quern_context_release) release = nullptr;
  decltype(&::quern_context_fill) fill = nullptr;
  decltype(&::quern_context_fill_some) fill_some = nullptr;
  decltype(&::quern_context_set) set = nullptr;
  decltype(&::quern_context_copy) copy = nullptr;
  decltype(&::quern_context_compare) compare = nullptr;
  decltype(&::quern_context_same_bits) same_bits = nullptr;
  decltype(&::quern_context_check_content) check_content = nullptr;
  decltype(&::quern_context_check_pattern) check_pattern = nullptr;
  decltype(&::quern_context_wait) wait = nullptr;
  decltype(&::quern_context_read) read = nullptr;
  decltype(&::quern_context_write) write = nullptr;
  decltype(&::quern_context_pin) pin = nullptr;
  decltype(&::quern_context_unpin) unpin = nullptr;
  decltype(&::quern_context_send) send = nullptr;
  decltype(&::quern_context_fetch) fetch = nullptr;
  decltype(&::quern_context_wait_copies) wait_copies = nullptr;
  decltype(&::quern_context_copy_rows) copy_rows = nullptr;
  decltype(&::quern_context_bandwidth) bandwidth = nullptr;

  static base::expected<std::shared_ptr<const functions>> load(const std::filesystem::path& path);
};

namespace {

std::filesystem::path cuda_part_file() {
  return base::program_folder() / "libquern_cuda.so";
}

/// CUDA contexts of this process that were ended, by device (any number: two of them may share
/// one).
std::atomic<std::uint64_t>& ended_cuda_contexts(int device) {
  static std::array<std::atomic<std::uint64_t>, 64> ended{};
  return ended[static_cast<std::size_t>(device) % ended.size()];
}

template <class F>
bool find_context_function(void* library, F& to, const char* name) {
  to = reinterpret_cast<F>(::dlsym(library, name));
  return to != nullptr;
}

}  // namespace

base::expected<std::shared_ptr<const device_context::functions>> device_context::functions::load(
    const std::filesystem::path& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return base::fail(base::errc::unavailable,
                      "the CUDA part cannot be loaded: {}; was it built? (tools/setup.sh, then "
                      "cmake --fresh)",
                      ::dlerror());
  std::array<char, 512> other{};
  if (!is_of_this_build(library, cuda_build_function, path.c_str(), cuda_part_build(), other.data(),
                        other.size()))
    return base::fail(base::errc::unavailable, "{}", other.data());
  functions f;
  const auto find = [&](auto& to, const char* name) {
    return find_context_function(library, to, name);
  };
  const bool complete =
      find(f.open, "quern_context_open") && find(f.close, "quern_context_close") &&
      find(f.end_cuda_context, "quern_context_end_cuda") &&
      find(f.problem, "quern_context_problem") && find(f.facts_of, "quern_context_facts_of") &&
      find(f.free_bytes, "quern_context_free_bytes") &&
      find(f.allocate, "quern_context_allocate") && find(f.release, "quern_context_release") &&
      find(f.fill, "quern_context_fill") && find(f.fill_some, "quern_context_fill_some") &&
      find(f.set, "quern_context_set") && find(f.copy, "quern_context_copy") &&
      find(f.compare, "quern_context_compare") && find(f.same_bits, "quern_context_same_bits") &&
      find(f.check_content, "quern_context_check_content") &&
      find(f.check_pattern, "quern_context_check_pattern") && find(f.wait, "quern_context_wait") &&
      find(f.read, "quern_context_read") && find(f.write, "quern_context_write") &&
      find(f.pin, "quern_context_pin") && find(f.unpin, "quern_context_unpin") &&
      find(f.send, "quern_context_send") && find(f.fetch, "quern_context_fetch") &&
      find(f.wait_copies, "quern_context_wait_copies") &&
      find(f.copy_rows, "quern_context_copy_rows") && find(f.bandwidth, "quern_context_bandwidth");
  if (complete) return std::make_shared<const functions>(f);
  return base::fail(base::errc::unavailable, "{} is of another build", path.string());
}

device_allocation::device_allocation(device_allocation&& other) noexcept
    : context_(std::exchange(other.context_, nullptr)),
      allocation_(std::exchange(other.allocation_, {0, 0, 0, -1})) {}

device_allocation& device_allocation::operator=(device_allocation&& other) noexcept {
  if (this == &other) return *this;
  if (context_ != nullptr) context_->release(allocation_);
  context_ = std::exchange(other.context_, nullptr);
  allocation_ = std::exchange(other.allocation_, {0, 0, 0, -1});
  return *this;
}

device_allocation::~device_allocation() {
  if (context_ != nullptr) context_->release(allocation_);
}

pinned_memory::pinned_memory(pinned_memory&& other) noexcept
    : context_(std::exchange(other.context_, nullptr)), bytes_(std::exchange(other.bytes_, {})) {}

pinned_memory& pinned_memory::operator=(pinned_memory&& other) noexcept {
  if (this == &other) return *this;
  if (context_ != nullptr) context_->unpin(bytes_.data());
  context_ = std::exchange(other.context_, nullptr);
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

pinned_memory::~pinned_memory() {
  if (context_ != nullptr) context_->unpin(bytes_.data());
}

base::expected<std::unique_ptr<device_context>> device_context::open(int device) {
  return open(device, cuda_part_file());
}

base::expected<std::unique_ptr<device_context>> device_context::open(
    int device, const std::filesystem::path& library) {
  QUERN_TRY(const auto call, functions::load(library));
  std::unique_ptr<device_context> context(new device_context);
  context->call_ = call;
  context->device_ = device;
  context->contexts_before_ = ended_cuda_contexts(device);
  std::array<char, 512> problem{};
  if (call->open(device, &context->context_, problem.data(), problem.size()) != 0)
    return base::fail(base::errc::unavailable, "GPU {}: {}", device, problem.data());
  if (call->facts_of(context->context_, &context->facts_) != 0)
    return tl::make_unexpected(context->problem());
  return context;
}

base::status device_context::end_cuda_context(int device) {
  return end_cuda_context(device, cuda_part_file());
}

base::status device_context::end_cuda_context(int device, const std::filesystem::path& library) {
  QUERN_TRY(const auto call, functions::load(library));
  ++ended_cuda_contexts(device);
  if (call->end_cuda_context(device) != 0)
    return base::fail(base::errc::unavailable, "GPU {}: its context cannot be ended", device);
  return {};
}

bool device_context::lost_cuda_context() const {
  return contexts_before_ != ended_cuda_contexts(device_);
}

device_context::~device_context() {
  // Nobody asks any more.
  if (!failed_.empty()) base::log_warn("evaluator", "GPU {}: {}", device_, failed_);
  // What is left of one without a CUDA context is a stream and memory that are gone.
  if (context_ != nullptr && !lost_cuda_context()) call_->close(context_);
}

base::error device_context::problem() const {
  return {base::errc::unavailable, fmt::format("GPU {}: {}", device_, call_->problem(context_))};
}

void device_context::note(std::int32_t result) {
  if (result != 0 && failed_.empty()) failed_ = call_->problem(context_);
}

void device_context::release(quern_allocation& allocation) {
  note(call_->release(context_, &allocation));
}

void device_context::unpin(std::byte* memory) {
  note(call_->unpin(context_, memory));
}

base::expected<std::uint64_t> device_context::free_bytes() {
  std::uint64_t bytes = 0;
  if (call_->free_bytes(context_, &bytes) != 0) return tl::make_unexpected(problem());
  return bytes;
}

base::expected<device_allocation> device_context::allocate(std::uint64_t bytes) {
  device_allocation allocation;
  if (call_->allocate(context_, std::max<std::uint64_t>(bytes, 1), &allocation.allocation_) != 0)
    return tl::make_unexpected(problem());
  allocation.context_ = this;
  return allocation;
}

void device_context::fill(std::uint64_t address, const quern_content& what) {
  note(call_->fill(context_, address, &what));
}

void device_context::fill_some(std::uint64_t address, const quern_content& what, std::int64_t first,
                               std::int64_t count) {
  note(call_->fill_some(context_, address, &what, first, count));
}

void device_context::set(std::uint64_t address, std::uint64_t bytes, std::uint32_t word) {
  note(call_->set(context_, address, bytes, word));
}

void device_context::copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  note(call_->copy(context_, to, from, bytes));
}

void device_context::compare(std::uint64_t got, std::uint64_t want, const tensor_layout& layout,
                             const tolerance& limit, bool want_is_f64) {
  note(call_->compare(context_, got, want, static_cast<std::int32_t>(layout.type), layout.elements,
                      limit.atol, limit.rtol, want_is_f64 ? 1 : 0));
}

void device_context::same_bits(std::uint64_t a, std::uint64_t b, const tensor_layout& layout) {
  note(call_->same_bits(context_, a, b, static_cast<std::int32_t>(layout.type), layout.elements));
}

void device_context::check_content(std::uint64_t address, const quern_content& what) {
  note(call_->check_content(context_, address, &what));
}

void device_context::check_pattern(std::uint64_t address, std::uint64_t bytes, std::uint32_t word) {
  note(call_->check_pattern(context_, address, bytes, word));
}

base::expected<std::vector<device_finding>> device_context::wait() {
  std::vector<quern_finding> raw(QUERN_MOST_FINDINGS);
  std::int32_t count = 0;
  note(call_->wait(context_, raw.data(), QUERN_MOST_FINDINGS, &count));
  if (!failed_.empty())
    return base::fail(base::errc::unavailable, "GPU {}: {}", device_, std::exchange(failed_, {}));
  std::vector<device_finding> found;
  found.reserve(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i)
    found.push_back(
        {raw[static_cast<std::size_t>(i)].wrong, raw[static_cast<std::size_t>(i)].first});
  return found;
}

base::status device_context::read(std::span<std::byte> to, std::uint64_t from) {
  if (call_->read(context_, to.data(), from, to.size()) != 0) return tl::make_unexpected(problem());
  return {};
}

base::status device_context::write(std::uint64_t to, std::span<const std::byte> from) {
  if (call_->write(context_, to, from.data(), from.size()) != 0)
    return tl::make_unexpected(problem());
  return {};
}

base::expected<pinned_memory> device_context::pin(std::uint64_t bytes) {
  void* at = nullptr;
  if (call_->pin(context_, bytes, &at) != 0) return tl::make_unexpected(problem());
  pinned_memory memory;
  memory.context_ = this;
  memory.bytes_ = {static_cast<std::byte*>(at), bytes};
  return memory;
}

void device_context::send(std::uint64_t to, const std::byte* from, const quern_byte_rows& rows) {
  note(call_->send(context_, to, from, &rows));
}

void device_context::fetch(std::byte* to, std::uint64_t from, const quern_byte_rows& rows) {
  note(call_->fetch(context_, to, from, &rows));
}

void device_context::wait_for_copies() {
  note(call_->wait_copies(context_));
}

void device_context::copy_rows(std::uint64_t to, std::uint64_t from, std::uint64_t width,
                               std::uint64_t rows, std::uint64_t pitch) {
  if (width > 0 && rows > 0) note(call_->copy_rows(context_, to, from, width, rows, pitch));
}

base::expected<double> device_context::bandwidth(std::uint64_t bytes) {
  double speed = 0;
  if (call_->bandwidth(context_, bytes, &speed) != 0) return tl::make_unexpected(problem());
  return speed;
}

static_assert(static_cast<int>(dtype::f16) == QUERN_F16 && static_cast<int>(dtype::u8) == QUERN_U8);
static_assert(static_cast<int>(distribution::special) == QUERN_SPECIAL &&
              static_cast<int>(distribution::sorted) == QUERN_SORTED);

quern_content content_of(const tensor_layout& layout, distribution kind, std::uint64_t key,
                         std::uint64_t stream) {
  const std::int64_t row = layout.shape.empty() ? 1 : layout.shape.back();
  return {key,
          stream,
          static_cast<std::int32_t>(layout.type),
          static_cast<std::int32_t>(kind),
          layout.elements,
          std::max<std::int64_t>(row, 1),
          std::max<std::int64_t>(layout.below, 1)};
}

}  // namespace quern::env
