// How much a candidate's process takes while others come and go (env/gpu/process_memory.hpp).
#include "env/gpu/process_memory.hpp"

#include <optional>

#include "support/test.hpp"

using quern::env::device_quiet;
using quern::env::process_memory;

namespace {

constexpr std::uint64_t mib = 1 << 20;
constexpr std::uint64_t context = 1024 * mib;

struct device {
  device_quiet quiet;
  std::uint64_t free = 100'000 * mib;
  process_memory memory{[this] { return free; }, quiet, context};

  /// A question in which the process takes this much (or gives it back).
  void ask(std::int64_t taken_mib) {
    const process_memory::question look(&memory);
    free -= static_cast<std::uint64_t>(taken_mib) * mib;
  }
};

}  // namespace

TEST_CASE("What is taken while the process is asked is its own, to the byte") {
  device d;
  d.ask(256);
  d.ask(256);
  CHECK(d.memory.bytes() == 512 * mib);
  d.ask(-256);
  CHECK(d.memory.bytes() == 256 * mib);
  d.ask(0);
  CHECK(d.memory.bytes() == 256 * mib);
}

TEST_CASE("What others take between the questions is theirs") {
  device d;
  d.ask(100);
  d.free -= 3'000 * mib;  // a reference
  d.ask(100);
  d.free += 3'000 * mib;
  CHECK(d.memory.bytes() == 200 * mib);
}

TEST_CASE("A context that is made beside a question explains its share and no more") {
  device d;
  std::optional<device_quiet::disturbance> noise(d.quiet);
  d.ask(600);
  CHECK(d.memory.bytes() == 0);
  d.ask(90'000);
  CHECK(d.memory.bytes() == 90'000 * mib - context);
  noise.reset();
  d.ask(10);
  CHECK(d.memory.bytes() == 90'010 * mib - context);
}

TEST_CASE("A context that came and went within a question is noticed") {
  device d;
  {
    const process_memory::question look(&d.memory);
    const device_quiet::disturbance noise(d.quiet);
    d.free -= 700 * mib;
  }
  CHECK(d.memory.bytes() == 0);
}

TEST_CASE("Beside a long question several contexts are made, each of which explains its share") {
  device d;
  {
    const process_memory::question look(&d.memory);
    for (int i = 0; i < 4; ++i) {
      const device_quiet::disturbance noise(d.quiet);
      d.free -= 700 * mib;
    }
    d.free -= 2'000 * mib;
  }
  // Of 4.8 GB four contexts may be four.
  CHECK(d.memory.bytes() == 4'800 * mib - 4 * context);
}

TEST_CASE("A context that stands still during a question explains nothing") {
  device d;
  const device_quiet::interruptible in_making(d.quiet, [](bool) {});
  const device_quiet::hold alone(d.quiet);
  d.ask(300);
  CHECK(d.memory.bytes() == 300 * mib);
  CHECK(d.memory.moved_by_others() == 0);
}

TEST_CASE("What comes behind the last look is told too") {
  device d;
  d.ask(300);
  CHECK(d.memory.moved_by_others() == 0);
  { const device_quiet::disturbance noise(d.quiet); }
  CHECK(d.memory.moved_by_others() == context);
  const device_quiet::disturbance noise(d.quiet);
  CHECK(d.memory.moved_by_others() == 2 * context);
}

TEST_CASE("A process that ended beside a question hides nothing that was counted") {
  device d;
  d.ask(500);
  {
    const device_quiet::disturbance noise(d.quiet);
    d.ask(-800);
  }
  CHECK(d.memory.bytes() == 500 * mib);
}

TEST_CASE("What is given back beside others is credited beyond what they may have given back") {
  device d;
  d.ask(500);
  {
    const process_memory::question look(&d.memory, 100 * mib);
    d.free += 300 * mib;
  }
  CHECK(d.memory.bytes() == 300 * mib);
}

TEST_CASE("Where the device tells nothing nothing is counted") {
  device d;
  d.free = 0;
  d.ask(0);
  CHECK(d.memory.bytes() == 0);
}
