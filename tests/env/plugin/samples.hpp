// Messages for tests: one of each type with fixed values, and random ones.
#pragma once

#include <vector>

#include "base/random.hpp"
#include "env/plugin/message.hpp"

namespace quern::env::test {

/// One of each type, in the order of the variant.
inline std::vector<message> one_of_each() {
  const base::hash128 task{0x0011223344556677, 0x8899aabbccddeeff};
  job_message job;
  job.session = 0x0000010000000001;
  job.lease = 0x0000010000000002;
  job.device = 0;
  job.lane = "cpp";
  job.sample = 17;
  job.attempt = 1;
  job.deadline_ms = 60000;
  job.protocol = "paired/1";
  job.task_hash = task;
  job.source_hash = {1, 2};
  job.seed = 0xfedcba9876543210;
  job.best_known_e2 = 137;
  job.recheck_above_e2 = 3000;
  job.source = "extern \"C\" void kernel() {}";
  return {hello_message{1, 1, "quern 0.1.0", 0x0123456789abcdef, {"cpp"}, {{0, "cpp-avx2", 2}}},
          welcome_message{0x0000010000000001, 0x0123456789abcdef, 1, 60000, 1000},
          refused_message{"protocol", "too old", "update"},
          credit_message{0x0000010000000001, 0, 3},
          job,
          need_message{0x0000010000000001, task},
          task_message{task, "quern_task: 1\n"},
          verdict_message{0x0000010000000001, 0x0000010000000002, "{\"quern_verdict\":1}"},
          verdict_ack_message{0x0000010000000002, 1},
          failed_message{0x0000010000000001, 0x0000010000000002, "no device"},
          cancel_message{0x0000010000000001, 0x0000010000000002, 0},
          heartbeat_message{0x0000010000000001},
          bye_message{0x0000010000000001, 1},
          error_message{"unknown_type", "what is X"}};
}

inline std::string random_text(base::random_stream& random, std::size_t most) {
  std::string text;
  // Any Unicode text: ASCII, a quote, a control character, two and three bytes of UTF-8.
  static const std::vector<std::string> pieces = {"a",    "Z", "\"", "\\", "\n",
                                                  "\x01", "ß", "€",  " "};
  for (auto n = random.below(most); n > 0; --n)
    text += pieces[random.below(pieces.size())];
  return text;
}

/// A random message of type `index`.
inline message random_message(std::size_t index, base::random_stream& random) {
  auto what = one_of_each()[index];
  const auto number = [&] {
    return random.between(-(std::int64_t{1} << 53), std::int64_t{1} << 53);
  };
  std::visit(
      [&](auto& m) {
        if constexpr (requires { m.session; }) m.session = random.next_u64();
        if constexpr (requires { m.lease; }) m.lease = random.next_u64();
        if constexpr (requires { m.nonce; }) m.nonce = random.next_u64();
        if constexpr (requires { m.seed; }) m.seed = random.next_u64();
        if constexpr (requires { m.n; }) m.n = number();
        if constexpr (requires { m.device; }) m.device = number();
        if constexpr (requires { m.deadline_ms; }) m.deadline_ms = number();
        if constexpr (requires { m.task_hash; })
          m.task_hash = {random.next_u64(), random.next_u64()};
        if constexpr (requires { m.code; }) m.code = random_text(random, 40);
        if constexpr (requires { m.text; }) m.text = random_text(random, 200);
        if constexpr (requires { m.reason; }) m.reason = random_text(random, 200);
        if constexpr (requires { m.source; }) m.source = random_text(random, 2000);
        if constexpr (requires { m.verdict; }) m.verdict = random_text(random, 2000);
        if constexpr (requires { m.name; }) m.name = random_text(random, 20);
        if constexpr (requires { m.pid; }) m.pid = number();
        if constexpr (requires { m.start; }) m.start = number();
        if constexpr (requires { m.claim_e2; }) m.claim_e2 = number();
        if constexpr (requires { m.returned; }) m.returned = number();
        if constexpr (requires { m.quarantined; }) {
          for (auto n = random.below(4); n > 0; --n)
            m.quarantined.push_back({number(), random_text(random, 60), number()});
        }
        if constexpr (requires { m.devices; }) {
          m.devices.clear();
          for (auto n = random.below(5); n > 0; --n) {
            m.devices.push_back({number(), random_text(random, 20), number()});
          }
        }
      },
      what);
  return what;
}

}  // namespace quern::env::test
