// Bounds, timeouts and credits that several actors share, with their reasons. Those of the
// evaluator hosts' protocol are in env/plugin/time_outs.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace quern::actors::defaults {

using namespace std::chrono_literals;

/// Heartbeats between trusted nodes: without them a frozen peer is never noticed (CAF's default is
/// off), and both ends must have the same setting.
constexpr auto node_heartbeat = 500ms;
/// A node that is silent for so long is gone. Above a learner's longest block on the network
/// thread.
constexpr auto node_silence = 5s;

/// From the last order to an empty process: the supervisor's children have exit_grace and some
/// seconds before, evaluations that run are not waited for.
constexpr auto node_end = 30s;

/// hello to welcome: seconds at most on one host. Where roles are on several, nobody is welcomed
/// before the learner's rank 0, which may take start_timeout, has told where groups meet. Control
/// answers nobody while it waits for a run.db that another process holds: a minute at most
/// (storage::busy_limits).
constexpr auto welcome_timeout = 130s;
/// From start of a process to its hello: loading LibTorch from a cold disk takes seconds.
constexpr auto start_timeout = 60s;
/// For messages between two such deadlines.
constexpr auto start_slack = 10s;
/// What is read or written for a policy goes at least so fast (bytes a second): half of an old
/// disk, or of a network file system that several hosts read from. Deadlines are beside that time.
constexpr std::uint64_t slowest_storage = 50'000'000;
/// A rank that has met the others connects to them: a GPU's context and NCCL take seconds each, and
/// a minute where a host is busy.
constexpr auto connect_deadline = 120s;
/// What a rank does without telling that it goes on, beside its bytes: seconds. A file system that
/// changes over to its other server takes minutes.
constexpr auto phase_deadline = 300s;
/// A vocabulary is trained by one thread on thousands of records: minutes.
constexpr auto vocabulary_deadline = 1800s;
/// Who shares a GPU goes on without a turn after 300 s (workers/device_share).
constexpr auto turn_deadline = 360s;
/// From the first rank's hello to a learner that is ready, beside its bytes: ranks meet within a
/// minute, connect, and load.
constexpr auto load_deadline = 600s;
/// A batch that was sent is answered. On a GPU that evaluators measure on, the learner waits up to
/// 300 s for its turn, and then as long for a generator that has begun to take weights and waits
/// for its own.
constexpr auto step_deadline = 900s;
/// The same before there is a step to compare with: kernels are loaded, memory is taken.
constexpr auto first_step_deadline = 1800s;
/// A step may take so many times the median of recent ones: batches differ by their lengths, and
/// evaluators have a shared GPU in between.
constexpr std::int64_t step_times = 10;
/// From the order to a checkpoint that is durable, beside its bytes, while steps go on.
constexpr auto checkpoint_timeout = 600s;
/// Between two looks at what a learner was sent and has not answered.
constexpr auto look_interval = 1s;
/// From the last order to the end of a process.
constexpr auto exit_grace = 3s;
/// A process that lost the launch command it lives by, and does not end, is killed.
constexpr auto input_grace = 3s;
/// When a group of ranks has failed, for the thread that waits in a collective to say so and leave;
/// then the process is ended, whatever that thread is in.
constexpr auto leave_grace = 2s;

/// Exit code of a process of stage sft that can be gone on with.
constexpr int paused_code = 3;

/// Exit code of a learner's rank, or of a generator, that ends because another one failed.
constexpr int group_failed_code = 4;

/// Exit code of a learner, a generator or a rank of stage sft that LibTorch or CUDA threw out of
/// its work: it said what, and is started again.
constexpr int worker_failed_code = 5;

/// Samples that a generator holds at once, beyond those that its cache has slots for: it never
/// waits for a message between two decode steps.
constexpr std::int64_t generator_queue = 16;

/// Candidates that are with the dispatcher and have no verdict: so many that no evaluator waits for
/// control. A window may hold more samples; those beyond stay `generated` until there is room.
constexpr std::size_t evaluation_queue = 4096;

/// So many batches in a row whose gradient is not finite end the run: one may be a freak of a
/// batch, several are the weights or the learning rate.
constexpr int most_left_out = 3;

/// The control plane is told of metrics at most this often by one process.
constexpr auto status_interval = 1s;

}  // namespace quern::actors::defaults
