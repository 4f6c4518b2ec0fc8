// Every bound, timeout and credit of the actor system, with its reason.
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
/// before the learner's rank 0, which may take start_timeout, has told where groups meet.
constexpr auto welcome_timeout = 70s;
/// From start of a process to its hello: loading LibTorch from a cold disk takes seconds.
constexpr auto start_timeout = 60s;
/// A checkpoint of the largest policy to a slow disk.
constexpr auto checkpoint_timeout = 600s;
/// What is in flight may finish before a process that was asked to end is killed.
constexpr auto drain_timeout = 60s;
/// From the last order to the end of a process.
constexpr auto exit_grace = 3s;
/// A process that lost the launch command it lives by, and does not end, is killed.
constexpr auto input_grace = 3s;
/// The others notice that control died (pipe, parent-death signal, connection) well inside 5 s.
constexpr auto orphan_grace = 2s;

/// Exit code of a process of stage sft that can be gone on with.
constexpr int paused_code = 3;

/// Exit code of a learner's rank, or of a generator, that ends because another one failed.
constexpr int group_failed_code = 4;

/// Largest message between nodes; heartbeats queue behind a payload.
constexpr std::size_t largest_message_bytes = 4U << 20U;

/// Samples that a generator holds at once, beyond those that its cache has slots for: it never
/// waits for a message between two decode steps.
constexpr std::int64_t generator_queue = 16;

/// Jobs that wait for an evaluator. Credit keeps the number far below; the bound is a safety.
constexpr std::size_t evaluation_queue = 4096;

/// The control plane is told of metrics at most this often by one process.
constexpr auto status_interval = 1s;

}  // namespace quern::actors::defaults
