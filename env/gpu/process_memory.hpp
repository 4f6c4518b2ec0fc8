// How much device memory a candidate's own process takes, told apart from what others take and give
// back meanwhile: looked at before and after each question, since between questions it stands
// still.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "env/gpu/quiet.hpp"

namespace quern::env {

/// One process. One thread.
class process_memory {
 public:
  /// `free_bytes`: what nobody has, and what is lent, now; 0 where that cannot be told. `context`:
  /// what making or taking down a context may move.
  process_memory(std::function<std::uint64_t()> free_bytes, const device_quiet& quiet,
                 std::uint64_t context)
      : free_bytes_(std::move(free_bytes)), quiet_(quiet), context_(context) {}

  /// Around one question to the process, or around many with others at work between them, who may
  /// take up to `others` bytes meanwhile. A look waits for the driver, which makes contexts one
  /// after another: some milliseconds.
  class question {
   public:
    explicit question(process_memory* of, std::uint64_t others = 0);
    ~question();
    question(const question&) = delete;
    question& operator=(const question&) = delete;

   private:
    process_memory* memory_;  ///< null: nobody looks
    std::uint64_t others_, before_ = 0;
    device_quiet::look seen_;
  };

  /// What it holds, without its context. Where others were at work during a question it counts only
  /// what they cannot explain.
  [[nodiscard]] std::uint64_t bytes() const {
    return bytes_ > 0 ? static_cast<std::uint64_t>(bytes_) : 0;
  }
  /// What contexts that came or went since the last look may have moved.
  [[nodiscard]] std::uint64_t moved_by_others() const {
    return context_ * device_quiet::disturbers_between(last_seen_, quiet_.now());
  }
  /// What nobody had at the last look: while the process lived, or as it ended; nothing before it.
  [[nodiscard]] std::optional<std::uint64_t> last_free() const { return last_free_; }

 private:
  /// `others`: bytes that those who were at work meanwhile can explain.
  void count(std::uint64_t before, std::uint64_t after, std::uint64_t others);

  std::function<std::uint64_t()> free_bytes_;
  const device_quiet& quiet_;
  std::uint64_t context_;
  std::int64_t bytes_ = 0;
  std::optional<std::uint64_t> last_free_;
  device_quiet::look last_seen_;
};

}  // namespace quern::env
