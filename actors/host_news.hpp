// What evaluator hosts say, from the gateway's thread to the dispatch actor's mailbox.
#pragma once

#include <memory>

#include "actors/gateway.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "actors/protocol.hpp"

namespace quern::actors {

/// Answers hosts that ask for a task's text by itself, from `tasks`, which is read here only; sends
/// everything else to `target`. Its functions are called by the gateway's thread.
std::unique_ptr<gateway_events> forward_host_news(const task_book& tasks, dispatch_ref target);

}  // namespace quern::actors
