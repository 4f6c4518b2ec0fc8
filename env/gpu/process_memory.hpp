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
    process_memory* of_;  ///< null: nobody looks
    std::uint64_t others_, before_ = 0, epoch_ = 0;
    bool disturbed_ = false;
  };

  /// What it holds, without its context. Where others were at work during a question it counts only
  /// what they cannot explain.
  [[nodiscard]] std::uint64_t bytes() const {
    return bytes_ > 0 ? static_cast<std::uint64_t>(bytes_) : 0;
  }
  /// Whether contexts came or went since the last look.
  [[nodiscard]] bool disturbed_since() const {
    return quiet_.disturbed() || quiet_.epoch() != last_epoch_;
  }
  /// What one of them may move.
  [[nodiscard]] std::uint64_t context_bytes() const { return context_; }
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
  std::uint64_t last_epoch_ = 0;
};

}  // namespace quern::env
