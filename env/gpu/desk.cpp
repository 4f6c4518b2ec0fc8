// The evaluator's side of one device.
#include "env/gpu/desk.hpp"

#include <array>
#include <atomic>
#include <filesystem>
#include <utility>

#include <dlfcn.h>

#include "base/log.hpp"
#include "base/program.hpp"
#include "env/device/part_build.hpp"

namespace quern::env {

struct device_desk::functions {
  decltype(&::quern_desk_open) open = nullptr;
  decltype(&::quern_desk_close) close = nullptr;
  decltype(&::quern_desk_end_context) end_context = nullptr;
  decltype(&::quern_desk_problem) problem = nullptr;
  decltype(&::quern_desk_facts_of) facts_of = nullptr;
  decltype(&::quern_desk_free_bytes) free_bytes = nullptr;
  decltype(&::quern_desk_allocate) allocate = nullptr;
  decltype(&::quern_desk_release) release = nullptr;
  decltype(&::quern_desk_fill) fill = nullptr;
  decltype(&::quern_desk_fill_some) fill_some = nullptr;
  decltype(&::quern_desk_set) set = nullptr;
  decltype(&::quern_desk_copy) copy = nullptr;
  decltype(&::quern_desk_compare) compare = nullptr;
  decltype(&::quern_desk_same_bits) same_bits = nullptr;
  decltype(&::quern_desk_check_content) check_content = nullptr;
  decltype(&::quern_desk_check_pattern) check_pattern = nullptr;
  decltype(&::quern_desk_wait) wait = nullptr;
  decltype(&::quern_desk_read) read = nullptr;
  decltype(&::quern_desk_write) write = nullptr;
  decltype(&::quern_desk_bandwidth) bandwidth = nullptr;

  static base::expected<std::shared_ptr<const functions>> load(const std::filesystem::path& path);
};

namespace {

std::filesystem::path cuda_part_file() {
  return base::program_folder() / "libquern_cuda.so";
}

/// Contexts of this process that were ended, by device (any number: two of them may share one).
std::atomic<std::uint64_t>& ended_contexts(int device) {
  static std::array<std::atomic<std::uint64_t>, 64> ended{};
  return ended[static_cast<std::size_t>(device) % ended.size()];
}

template <class F>
bool find_desk_function(void* library, F& to, const char* name) {
  to = reinterpret_cast<F>(::dlsym(library, name));
  return to != nullptr;
}

}  // namespace

base::expected<std::shared_ptr<const device_desk::functions>> device_desk::functions::load(
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
    return find_desk_function(library, to, name);
  };
  const bool complete =
      find(f.open, "quern_desk_open") && find(f.close, "quern_desk_close") &&
      find(f.end_context, "quern_desk_end_context") && find(f.problem, "quern_desk_problem") &&
      find(f.facts_of, "quern_desk_facts_of") && find(f.free_bytes, "quern_desk_free_bytes") &&
      find(f.allocate, "quern_desk_allocate") && find(f.release, "quern_desk_release") &&
      find(f.fill, "quern_desk_fill") && find(f.fill_some, "quern_desk_fill_some") &&
      find(f.set, "quern_desk_set") && find(f.copy, "quern_desk_copy") &&
      find(f.compare, "quern_desk_compare") && find(f.same_bits, "quern_desk_same_bits") &&
      find(f.check_content, "quern_desk_check_content") &&
      find(f.check_pattern, "quern_desk_check_pattern") && find(f.wait, "quern_desk_wait") &&
      find(f.read, "quern_desk_read") && find(f.write, "quern_desk_write") &&
      find(f.bandwidth, "quern_desk_bandwidth");
  if (complete) return std::make_shared<const functions>(f);
  return base::fail(base::errc::unavailable, "{} is of another build", path.string());
}

device_piece::device_piece(device_piece&& other) noexcept
    : desk_(std::exchange(other.desk_, nullptr)),
      piece_(std::exchange(other.piece_, {0, 0, 0, -1})) {}

device_piece& device_piece::operator=(device_piece&& other) noexcept {
  if (this == &other) return *this;
  if (desk_ != nullptr) desk_->release(piece_);
  desk_ = std::exchange(other.desk_, nullptr);
  piece_ = std::exchange(other.piece_, {0, 0, 0, -1});
  return *this;
}

device_piece::~device_piece() {
  if (desk_ != nullptr) desk_->release(piece_);
}

base::expected<std::unique_ptr<device_desk>> device_desk::open(int device) {
  return open(device, cuda_part_file());
}

base::expected<std::unique_ptr<device_desk>> device_desk::open(
    int device, const std::filesystem::path& library) {
  QUERN_TRY(const auto call, functions::load(library));
  std::unique_ptr<device_desk> desk(new device_desk);
  desk->call_ = call;
  desk->device_ = device;
  desk->contexts_before_ = ended_contexts(device);
  std::array<char, 512> problem{};
  if (call->open(device, &desk->desk_, problem.data(), problem.size()) != 0)
    return base::fail(base::errc::unavailable, "GPU {}: {}", device, problem.data());
  if (call->facts_of(desk->desk_, &desk->facts_) != 0) return tl::make_unexpected(desk->problem());
  return desk;
}

base::status device_desk::end_context(int device) {
  return end_context(device, cuda_part_file());
}

base::status device_desk::end_context(int device, const std::filesystem::path& library) {
  QUERN_TRY(const auto call, functions::load(library));
  ++ended_contexts(device);
  if (call->end_context(device) != 0)
    return base::fail(base::errc::unavailable, "GPU {}: its context cannot be ended", device);
  return {};
}

bool device_desk::lost_context() const {
  return contexts_before_ != ended_contexts(device_);
}

device_desk::~device_desk() {
  // Nobody asks any more.
  if (!failed_.empty()) base::log_warn("evaluator", "GPU {}: {}", device_, failed_);
  // What is left of one without a context is a stream and memory that are gone.
  if (desk_ != nullptr && !lost_context()) call_->close(desk_);
}

base::error device_desk::problem() const {
  return {base::errc::unavailable, fmt::format("GPU {}: {}", device_, call_->problem(desk_))};
}

void device_desk::note(std::int32_t result) {
  if (result != 0 && failed_.empty()) failed_ = call_->problem(desk_);
}

void device_desk::release(quern_piece& piece) {
  note(call_->release(desk_, &piece));
}

base::expected<std::uint64_t> device_desk::free_bytes() {
  std::uint64_t bytes = 0;
  if (call_->free_bytes(desk_, &bytes) != 0) return tl::make_unexpected(problem());
  return bytes;
}

base::expected<device_piece> device_desk::allocate(std::uint64_t bytes) {
  device_piece piece;
  if (call_->allocate(desk_, std::max<std::uint64_t>(bytes, 1), &piece.piece_) != 0)
    return tl::make_unexpected(problem());
  piece.desk_ = this;
  return piece;
}

void device_desk::fill(std::uint64_t address, const quern_content& what) {
  note(call_->fill(desk_, address, &what));
}

void device_desk::fill_some(std::uint64_t address, const quern_content& what, std::int64_t first,
                            std::int64_t count) {
  note(call_->fill_some(desk_, address, &what, first, count));
}

void device_desk::set(std::uint64_t address, std::uint64_t bytes, std::uint32_t word) {
  note(call_->set(desk_, address, bytes, word));
}

void device_desk::copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  note(call_->copy(desk_, to, from, bytes));
}

void device_desk::compare(std::uint64_t got, std::uint64_t want, const tensor_layout& layout,
                          const tolerance& limit, bool want_is_f64) {
  note(call_->compare(desk_, got, want, static_cast<std::int32_t>(layout.type), layout.elements,
                      limit.atol, limit.rtol, want_is_f64 ? 1 : 0));
}

void device_desk::same_bits(std::uint64_t a, std::uint64_t b, const tensor_layout& layout) {
  note(call_->same_bits(desk_, a, b, static_cast<std::int32_t>(layout.type), layout.elements));
}

void device_desk::check_content(std::uint64_t address, const quern_content& what) {
  note(call_->check_content(desk_, address, &what));
}

void device_desk::check_pattern(std::uint64_t address, std::uint64_t bytes, std::uint32_t word) {
  note(call_->check_pattern(desk_, address, bytes, word));
}

base::expected<std::vector<device_finding>> device_desk::wait() {
  std::vector<quern_finding> raw(QUERN_MOST_FINDINGS);
  std::int32_t count = 0;
  note(call_->wait(desk_, raw.data(), QUERN_MOST_FINDINGS, &count));
  if (!failed_.empty())
    return base::fail(base::errc::unavailable, "GPU {}: {}", device_, std::exchange(failed_, {}));
  std::vector<device_finding> found;
  found.reserve(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i)
    found.push_back(
        {raw[static_cast<std::size_t>(i)].wrong, raw[static_cast<std::size_t>(i)].first});
  return found;
}

base::status device_desk::read(std::span<std::byte> to, std::uint64_t from) {
  if (call_->read(desk_, to.data(), from, to.size()) != 0) return tl::make_unexpected(problem());
  return {};
}

base::status device_desk::write(std::uint64_t to, std::span<const std::byte> from) {
  if (call_->write(desk_, to, from.data(), from.size()) != 0) return tl::make_unexpected(problem());
  return {};
}

base::expected<double> device_desk::bandwidth(std::uint64_t bytes) {
  double speed = 0;
  if (call_->bandwidth(desk_, bytes, &speed) != 0) return tl::make_unexpected(problem());
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
