// Memory that the evaluator owns: seals, canaries, guard pages, alignment; and the plan that
// describes it.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/runner/arena.hpp"
#include "env/runner/link.hpp"
#include "env/runner/mapping.hpp"
#include "env/runner/memory_file.hpp"
#include "support/test.hpp"

using namespace quern::env;

namespace {

tensor_layout bytes_tensor(std::int64_t bytes) {
  tensor_layout t;
  t.name = std::string(1, 't');
  t.type = dtype::u8;
  t.shape = {bytes};
  t.elements = t.bytes = bytes;
  return t;
}

}  // namespace

TEST_CASE("inputs: writable here, for nobody else, and of one size for ever") {
  const auto file = memory_file::create(memory_use::inputs, 10000).value();
  CHECK(file.bytes().size() == 12288);
  file.bytes()[0] = std::byte{7};
  CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0) == MAP_FAILED);
  void* view = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file.fd(), 0);
  REQUIRE(view != MAP_FAILED);
  CHECK(static_cast<std::byte*>(view)[0] == std::byte{7});
  CHECK(mprotect(view, 4096, PROT_READ | PROT_WRITE) != 0);
  munmap(view, 4096);
  CHECK(ftruncate(file.fd(), 4096) != 0);
  CHECK(ftruncate(file.fd(), 1 << 20) != 0);
  CHECK(write(file.fd(), "x", 1) < 0);
  CHECK(fcntl(file.fd(), F_ADD_SEALS, F_SEAL_WRITE) < 0);
}

TEST_CASE("outputs: writable by a runner, but never resized") {
  const auto file = memory_file::create(memory_use::outputs, 1).value();
  void* view = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
  REQUIRE(view != MAP_FAILED);
  munmap(view, 4096);
  CHECK(ftruncate(file.fd(), 1 << 20) != 0);
}

TEST_CASE("runners that are given the same inputs have every file at the same address") {
  const std::vector<tensor_layout> tensors{bytes_tensor(5000)};
  const auto inputs = tensor_arena::create(memory_use::inputs, tensors, 3).value();
  const auto others = tensor_arena::create(memory_use::inputs, tensors, 3).value();
  const auto mine = tensor_arena::create(memory_use::outputs, tensors, 3).value();
  const auto theirs = tensor_arena::create(memory_use::outputs, tensors, 3).value();
  CHECK(mine.request(1, inputs).address == theirs.request(1, inputs).address);
  CHECK(mine.request(1, inputs).address != mine.request(1, others).address);
  CHECK(mine.request(1, inputs).address != mine.request(2, inputs).address);
  CHECK(inputs.request(0).address != others.request(0).address);

  runner::mapped_files first, second;
  REQUIRE(first.map(inputs.request(0), inputs.fd()));
  REQUIRE(first.map(mine.request(1, inputs), mine.fd()));
  for (std::uint32_t file : {0U, 1U})
    CHECK(reinterpret_cast<std::uint64_t>(first.at(file, 0)) ==
          address_of(inputs.place(), file) + page_bytes);
  // An address that is taken is no reason to fail.
  REQUIRE(second.map(theirs.request(1, inputs), theirs.fd()));
  CHECK(second.at(1, 0) != first.at(1, 0));
  theirs.at(0, 1)[7] = std::byte{42};
  CHECK(*second.at(1, static_cast<std::uint64_t>(theirs.at(0, 1).data() - theirs.at(0, 0).data()) +
                          7 + 256) == std::byte{42});
  // A place of which nothing is known, as an older evaluator sends.
  auto anywhere = mine.request(1);
  anywhere.address = 0;
  CHECK(second.map(anywhere, mine.fd()));
}

TEST_CASE("tensors are aligned, apart, inside their ranges, and end near a page that faults") {
  for (std::int64_t slots : {1, 5}) {
    const std::vector<tensor_layout> tensors{bytes_tensor(1), bytes_tensor(256), bytes_tensor(4096),
                                             bytes_tensor(5001)};
    const auto arena = tensor_arena::create(memory_use::outputs, tensors, slots).value();
    std::array<runner::tensor_place, 4> places;
    arena.place(1, places);
    const auto request = arena.request(1);
    std::uint64_t end = 0;
    for (std::int64_t s = 0; s < slots; ++s)
      for (std::size_t i = 0; i < places.size(); ++i) {
        const auto begin = places[i].offset + static_cast<std::uint64_t>(s) * places[i].stride;
        CHECK(begin % 256 == 0);
        CHECK(begin >= end);
        end = begin + static_cast<std::uint64_t>(tensors[i].bytes);
        bool inside = false;
        for (std::uint32_t r = 0; r < request.range_count; ++r) {
          const auto range_end = request.ranges[r].begin + request.ranges[r].bytes;
          if (begin < request.ranges[r].begin || end > range_end) continue;
          inside = true;
          if (slots == 1) CHECK(range_end - end < 256);
        }
        CHECK(inside);
        CHECK(arena.at(i, s).size() == static_cast<std::size_t>(tensors[i].bytes));
      }
  }
}

TEST_CASE("a canary sees every byte outside, and none inside") {
  for (std::int64_t slots : {1, 3}) {
    const std::vector<tensor_layout> tensors{bytes_tensor(100), bytes_tensor(300)};
    const auto arena = tensor_arena::create(memory_use::outputs, tensors, slots).value();
    for (std::int64_t s = 0; s < slots; ++s) {
      arena.arm(s);
      CHECK(arena.touched_canary(s) == -1);
      for (std::size_t t = 0; t < 2; ++t) {
        const auto bytes = arena.at(t, s);
        for (auto& b : bytes)
          b = std::byte{1};
        CHECK(arena.touched_canary(s) == -1);
        std::byte* past = bytes.data() + bytes.size();
        for (int offset : {0, 1, 63}) {
          const std::byte before = past[offset];
          past[offset] = std::byte{0};
          CHECK(arena.touched_canary(s) >= 0);
          past[offset] = before;
        }
        CHECK(arena.touched_canary(s) == -1);
      }
    }
  }
}

TEST_CASE("plans hold inputs, outputs and sizes in file order; too many tensors are refused") {
  task_instance at;
  at.sizes = {3, 4};
  at.inputs = {bytes_tensor(12)};
  at.outputs = {bytes_tensor(5), bytes_tensor(6)};
  const auto in = make_input_arena(at, 1).value();
  const auto out = tensor_arena::create(memory_use::outputs, at.outputs, 1).value();
  const auto plan = make_plan(at, in, out).value();
  CHECK(plan.inputs == 1);
  CHECK(plan.outputs == 2);
  CHECK(plan.sizes == 2);
  CHECK(plan.size_values[1] == 4);
  CHECK(plan.tensors[0].file == 0);
  CHECK(plan.tensors[2].file == 1);
  CHECK(plan.tensors[2].shape[0] == 6);
  CHECK_FALSE(
      tensor_arena::create(memory_use::outputs, std::vector(33, bytes_tensor(4)), 1).has_value());
  CHECK_FALSE(
      tensor_arena::create(memory_use::outputs, std::vector(1, bytes_tensor(4)), 0).has_value());
}

TEST_CASE("a process that somebody stopped is given up before its time is over") {
  auto ends = runner_link::make_pair().value();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  runner_link link(std::move(ends.first), child);
  // The child has the other end, too, so it is not gone.
  const auto answer = link.flush({.cpu_s = 60, .wall_s = 60, .stopped_s = 0.2});
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().failure_kind == runner_failure::kind::timeout);
  CHECK(answer.error().stopped);
  CHECK(answer.error().text.find("the limit is 0.2 s") != std::string::npos);
}
