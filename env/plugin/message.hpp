// The evaluator hosts' protocol, version 1: what a gateway and a host say to each other. Documented
// so that a host can be written in any language; the frames are made in message_codec.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"

namespace quern::env {

/// Protocol versions that this build speaks.
inline constexpr std::int64_t oldest_protocol = 1;
inline constexpr std::int64_t newest_protocol = 1;

struct host_device {
  std::int64_t id = 0;       ///< the host's own number
  std::string device_class;  ///< JSON "class"
  std::int64_t slots = 1;    ///< the most jobs that it holds at once
  /// Those of its host's lanes that it has; empty (left out on the wire): all of them.
  std::vector<std::string> lanes = {};
  bool operator==(const host_device&) const = default;
};

/// Host: I am here. `nonce` is drawn at each start of the host; the same nonce at a new connection
/// is a reconnection, which keeps session, leases and credit if the session still lives.
struct hello_message {
  std::int64_t proto_min = oldest_protocol;
  std::int64_t proto_max = newest_protocol;
  std::string build;
  std::uint64_t nonce = 0;
  std::vector<std::string> lanes;
  std::vector<host_device> devices;
  /// Process of the host, for who started it; 0 (left out on the wire): none to be named.
  std::int64_t pid = 0;
  /// What people call the host; may be empty (left out on the wire).
  std::string name = {};
  /// Number that the run gave the host when it started it; 0 (left out on the wire): it did not.
  std::int64_t start = 0;
  bool operator==(const hello_message&) const = default;
};

/// Gateway: you are in. `nonce` is that of the HELLO; a WELCOME for another one is too late and
/// ignored. Another `session` than before means that all earlier leases are void.
struct welcome_message {
  std::uint64_t session = 0;
  std::uint64_t nonce = 0;
  std::int64_t proto = newest_protocol;
  std::int64_t lease_ms = 0;
  std::int64_t heartbeat_ms = 0;
  /// What people call the run; may be empty (left out on the wire).
  std::string run = {};
  bool operator==(const welcome_message&) const = default;
};

/// Gateway: you are not. The host ends with `text` and `hint` as its message.
struct refused_message {
  std::string code;
  std::string text;
  std::string hint;
  bool operator==(const refused_message&) const = default;
};

/// Host: `n` jobs have been asked for by this device in this session in all; the gateway sends
/// while it has sent fewer. Repeating it is harmless.
struct credit_message {
  std::uint64_t session = 0;
  std::int64_t device = 0;
  std::int64_t n = 0;
  bool operator==(const credit_message&) const = default;
};

/// Gateway: evaluate `source` (a blob) for a task that the host has or asks for with NEED.
struct job_message {
  std::uint64_t session = 0;
  std::uint64_t lease = 0;
  std::int64_t device = 0;
  std::string lane;
  std::uint64_t sample = 0;
  std::int64_t attempt = 0;
  std::int64_t deadline_ms = 0;  ///< from receipt; afterwards a verdict comes too late
  std::string protocol;          ///< how to measure: "paired/1"
  base::hash128 task_hash;
  base::hash128 source_hash;
  std::uint64_t seed = 0;
  std::int64_t recheck = 0;           ///< 1: measure in fresh processes whatever is cached
  std::int64_t best_known_e2 = 0;     ///< best known speed-up in 1/100; 0: none
  std::int64_t recheck_above_e2 = 0;  ///< claims above are re-checked; 0: the host's default
  /// What the suite allows (env/task/suite_policy.hpp); empty (left out on the wire): the host's
  /// own.
  std::string policy;
  /// With `recheck`: an earlier claim that this device is to bear out, x 100; 0 (left out on the
  /// wire): none.
  std::int64_t claim_e2 = 0;
  std::string source;
  bool operator==(const job_message&) const = default;
};

/// Host: I do not know this task. Gateway: here it is (a blob).
struct need_message {
  std::uint64_t session = 0;
  base::hash128 task_hash;
  bool operator==(const need_message&) const = default;
};
struct task_message {
  base::hash128 task_hash;
  std::string text;
  bool operator==(const task_message&) const = default;
};

/// Host: the verdict (a blob: docs/formats/verdict.md), sent again until acknowledged. Gateway: it
/// is durable (`accepted` 1), or it came too late to count (0).
struct verdict_message {
  std::uint64_t session = 0;
  std::uint64_t lease = 0;
  std::string verdict;
  bool operator==(const verdict_message&) const = default;
};
struct verdict_ack_message {
  std::uint64_t lease = 0;
  std::int64_t accepted = 0;
  bool operator==(const verdict_ack_message&) const = default;
};

/// Host: the evaluation could not be made; says nothing about the candidate. Acknowledged like a
/// verdict.
struct failed_message {
  std::uint64_t session = 0;
  std::uint64_t lease = 0;
  std::string reason;
  /// 1: it was not begun, because the device takes no work now; another one should. Not a failed
  /// attempt. 0 (left out on the wire): begun, or given up for another reason.
  std::int64_t returned = 0;
  bool operator==(const failed_message&) const = default;
};

/// Gateway: the lease is over; repeated until the host answers with FAILED or VERDICT for it. The
/// host counts the job as finished on that device, also if it never arrived: otherwise its credit
/// would be lost with the frame.
struct cancel_message {
  std::uint64_t session = 0;
  std::uint64_t lease = 0;
  std::int64_t device = 0;
  bool operator==(const cancel_message&) const = default;
};

/// A device of the host that takes no work, though it had asked for some.
struct quarantined_device {
  std::int64_t device = 0;
  std::string reason;       ///< one sentence
  std::int64_t for_ms = 0;  ///< how long it has been so
  bool operator==(const quarantined_device&) const = default;
};

/// Both: a sign of life. From the gateway `session` is the host's own.
struct heartbeat_message {
  std::uint64_t session = 0;
  /// Host: all devices that take no work; none (left out on the wire): all do. Sent at once when it
  /// changes. The gateway sends them nothing until a heartbeat no longer names them.
  std::vector<quarantined_device> quarantined = {};
  bool operator==(const heartbeat_message&) const = default;
};

/// Host: `drain` 1: no more jobs, please, I finish what I have; 0: I am gone. Gateway: the run is
/// over (`drain` 0), or finish what you have and leave (1).
struct bye_message {
  std::uint64_t session = 0;
  std::int64_t drain = 0;
  bool operator==(const bye_message&) const = default;
};

/// Both: the last frame made no sense. `unknown_session` makes a host say HELLO again.
struct error_message {
  std::string code;
  std::string text;
  bool operator==(const error_message&) const = default;
};

using message =
    std::variant<hello_message, welcome_message, refused_message, credit_message, job_message,
                 need_message, task_message, verdict_message, verdict_ack_message, failed_message,
                 cancel_message, heartbeat_message, bye_message, error_message>;

/// "lanes NAME, NAME; devices 0 (CLASS, 3 jobs at a time)"; of a device that has not all lanes of
/// its host "0 (CLASS, lanes NAME, 3 jobs at a time)".
std::string offer_text(const std::vector<std::string>& lanes,
                       const std::vector<host_device>& devices);

/// The name in the type frame: "HELLO", "VERDICT_ACK", ...
std::string_view type_of(const message& what);

/// The protocol version that both sides speak: the newest of the common ones. Error `version`:
/// there is none; the message names both ranges and which side is older.
base::expected<std::int64_t> common_protocol(std::int64_t their_min, std::int64_t their_max);

}  // namespace quern::env
