// Where the tensors of a call lie in a memory file: aligned, apart from each other, with canaries
// and guard pages around.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "env/runner/memory_file.hpp"
#include "env/runner/protocol.hpp"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {

/// A memory file with `slots` copies of some tensors: call i of a plan uses copy i. Tensors are
/// 256-byte aligned and never overlap.
///
/// One slot: every tensor ends less than 256 bytes before a page that faults when touched, so that
/// the smallest large overrun ends the candidate. Many slots: 256 bytes of canary between tensors
/// instead (a page for each would not fit), and guard pages around the whole.
///
/// Bytes that belong to no tensor hold a canary pattern; touched_canary() tells who changed them.
class tensor_arena {
 public:
  static base::expected<tensor_arena> create(memory_use use, std::span<const tensor_layout> tensors,
                                             std::int64_t slots);

  /// Content of tensor t in a slot; writable here whatever the runners may do.
  [[nodiscard]] std::span<std::byte> at(std::size_t t, std::int64_t slot) const;

  /// Writes the canary pattern to all bytes of a slot that belong to no tensor.
  void arm(std::int64_t slot) const;

  /// Index of the tensor beside which a canary of this slot was changed; -1: none.
  [[nodiscard]] int touched_canary(std::int64_t slot) const;

  /// The message that makes a runner map it as file `index`.
  [[nodiscard]] runner::map_request request(std::uint32_t index) const;
  /// The same at the address that goes with the place of `inputs`: for every runner that is given
  /// these inputs it is one.
  [[nodiscard]] runner::map_request request(std::uint32_t index, const tensor_arena& inputs) const;
  /// memory_file::place.
  [[nodiscard]] std::uint64_t place() const { return file_.place(); }
  [[nodiscard]] int fd() const { return file_.fd(); }
  [[nodiscard]] std::size_t size() const { return file_.bytes().size(); }

  /// Places of the tensors for a plan, with file `index`.
  void place(std::uint32_t index, std::span<runner::tensor_place> places) const;

  /// Tensor that contains or is nearest to byte `offset` of the file, for messages; -1: none.
  [[nodiscard]] int nearest_tensor(std::uint64_t offset) const;

  [[nodiscard]] std::int64_t slots() const { return slots_; }

  /// Bytes that one slot of these tensors takes.
  static std::size_t slot_bytes(std::span<const tensor_layout> tensors);

 private:
  explicit tensor_arena(memory_file file) : file_(std::move(file)) {}

  memory_file file_;
  std::vector<tensor_layout> tensors_;
  std::vector<std::size_t> offsets_;
  std::vector<std::pair<std::size_t, std::size_t>>
      gaps_;  // [begin, end) in slot 0, after tensor i - 1
  std::vector<runner::file_range> ranges_;
  std::size_t stride_ = 0;
  std::int64_t slots_ = 1;
};

/// The inputs of an instance; a task without inputs gets four bytes that no plan names.
base::expected<tensor_arena> make_input_arena(const task_instance& instance, std::int64_t slots);

/// A plan for `sizes` whose inputs are file 0 and outputs file 1, without a workspace.
base::expected<runner::call_plan> make_plan(const task_instance& instance,
                                            const tensor_arena& inputs,
                                            const tensor_arena& outputs);

}  // namespace quern::env
