// The runners' side of a device: windows of calls between events.
#include "env/device/preparation.cuh"
#include "env/device/tensors.cuh"
#include "env/device/window_state.hpp"

using quern::gpu::address_of;
using quern::gpu::complain;
using quern::gpu::inside;
using quern::gpu::settle;

namespace {

/// Waits until the host has opened the gate, at most `timeout_ns`: a host that needs the device's
/// answer while it queues must not wait for ever.
__global__ void wait_at_gate(volatile uint32_t* gate, uint32_t turn, uint64_t timeout_ns) {
  uint64_t start = 0, now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    if (*gate == turn) return;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < timeout_ns);
}

bool changes_inside(const quern_order& o, int64_t elements) {
  if (o.changed_first < 0 || o.changed_first > elements || o.changed_count < 0 ||
      o.changed_run < 1 || o.changed_stride < o.changed_run)
    return false;
  if (o.changed_count == 0) return true;
  const int64_t whole_runs = (o.changed_count - 1) / o.changed_run;
  const int64_t left = elements - o.changed_first;
  if (whole_runs > left / o.changed_stride) return false;
  return whole_runs * o.changed_stride + (o.changed_count - 1) % o.changed_run < left;
}

quern_content content_of(const quern_tensors& t, const quern_order& o, int32_t input) {
  quern_content c = t.content[input];
  c.key = o.key + static_cast<uint64_t>(input);
  c.stream = o.stream;
  c.kind = t.kinds[o.round][input];
  return c;
}

int32_t change_some(quern_window* w, const quern_order& o) {
  if (o.changed_input < 0) return 0;
  quern_content c = content_of(w->tensors, o, o.changed_input);
  if (!changes_inside(o, c.elements))
    return complain(w, "%lld elements from %lld of %lld, in runs of %lld every %lld",
                    static_cast<long long>(o.changed_count),
                    static_cast<long long>(o.changed_first), static_cast<long long>(c.elements),
                    static_cast<long long>(o.changed_run),
                    static_cast<long long>(o.changed_stride));
  c.stream = o.changed_stream;
  c.kind = o.changed_kind;
  const uint64_t at = w->writable_inputs.address + w->tensors.input_offset[o.changed_input];
  return settle(w,
                quern::gpu::fill_elements(w->stream, at, c, o.changed_first, o.changed_count,
                                          o.changed_run, o.changed_stride),
                "changing some of the content");
}

int32_t make_flush(quern_window* w, uint64_t bytes) {
  if (bytes <= w->flush_bytes) return 0;
  if (w->flush != nullptr) (void)cudaFree(w->flush);
  w->flush = nullptr;
  w->flush_bytes = 0;
  if (settle(w, cudaMalloc(&w->flush, bytes), "memory to flush the cache with") < 0 ||
      settle(w, cudaMemsetAsync(w->flush, 0, bytes, w->stream), "memory to flush with") < 0)
    return -1;
  w->flush_bytes = bytes;
  return 0;
}

int32_t launch_step(quern_window* w, const quern_step& s, int64_t slot) {
  CUdeviceptr pointers[QUERN_MOST_PARAMETERS];
  void* values[QUERN_MOST_PARAMETERS];
  for (uint32_t i = 0; i < s.parameters; ++i) {
    auto& p = w->parameters[s.first_parameter + i];
    pointers[i] = address_of(w, p.place, slot);
    values[i] = p.bytes == 0 ? static_cast<void*>(&pointers[i]) : static_cast<void*>(p.raw);
  }
  CUlaunchConfig config{};
  config.gridDimX = s.grid[0];
  config.gridDimY = s.grid[1];
  config.gridDimZ = s.grid[2];
  config.blockDimX = s.block[0];
  config.blockDimY = s.block[1];
  config.blockDimZ = s.block[2];
  config.sharedMemBytes = s.shared_bytes;
  config.hStream = w->stream;
  CUlaunchAttribute together{};
  together.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  together.value.cooperative = 1;
  if (s.cooperative != 0) {
    config.attrs = &together;
    config.numAttrs = 1;
  }
  const auto kernel = w->kernels[static_cast<size_t>(s.kernel)];
  const auto e = w->api->launch(&config, kernel, values, nullptr);
  if (e == CUDA_SUCCESS) return 0;
  return complain(w, "launching kernel %d with grid (%u, %u, %u), block (%u, %u, %u): %s", s.kernel,
                  s.grid[0], s.grid[1], s.grid[2], s.block[0], s.block[1], s.block[2],
                  quern::gpu::name_of(*w->api, e));
}

int32_t perform(quern_window* w, const quern_step& s, int64_t slot) {
  const auto place = [&](uint32_t i) -> const quern_place& {
    return w->parameters[s.first_parameter + i].place;
  };
  switch (s.kind) {
    case QUERN_STEP_LAUNCH:
      return launch_step(w, s, slot);
    case QUERN_STEP_SET:
      return settle(w,
                    w->api->memset_bytes(address_of(w, place(0), slot),
                                         static_cast<unsigned char>(s.byte), s.bytes, w->stream),
                    "cudaMemsetAsync");
    default:
      return settle(w,
                    w->api->copy_within(address_of(w, place(0), slot),
                                        address_of(w, place(1), slot), s.bytes, w->stream),
                    "cudaMemcpyAsync");
  }
}

}  // namespace

extern "C" int32_t quern_window_begin(quern_window* w, const quern_window_settings* how) {
  w->settings = *how;
  w->calls = 0;
  w->last_beside = 0;
  w->begun_ns = w->started_ns = quern::gpu::clock_ns();
  if (make_flush(w, how->flush_bytes) < 0) return -1;
  // What a kernel asked the cache to keep would outlive the flush.
  if (how->flush_bytes != 0 &&
      settle(w, w->api->reset_persisting(), "resetting the persisting cache") < 0)
    return -1;
  ++w->turn;
  if (how->gate_timeout_ns == 0) return 0;
  wait_at_gate<<<1, 1, 0, w->stream>>>(w->gate_on_device, w->turn, how->gate_timeout_ns);
  return settle(w, cudaGetLastError(), "the gate");
}

extern "C" int32_t quern_window_tensors(quern_window* w, const quern_tensors* what, int32_t slots) {
  if (what->inputs < 0 || what->inputs > QUERN_MOST_TENSORS || what->outputs < 0 ||
      what->outputs > QUERN_MOST_TENSORS || slots < 1)
    return complain(w, "%d inputs, %d outputs, %d slots", what->inputs, what->outputs, slots);
  for (int32_t i = 0; i < what->inputs; ++i)
    if (!inside(w, {QUERN_INPUTS, 0, what->input_offset[i], 0},
                quern::gpu::bytes_of(what->content[i])))
      return complain(w, "input %d lies outside its region", i);
  for (int32_t o = 0; o < what->outputs; ++o)
    if (what->output_bytes[o] % 4 != 0 ||
        !inside(
            w,
            {QUERN_OUTPUTS, 0,
             what->output_offset[o] + static_cast<uint64_t>(slots - 1) * what->output_stride, 0},
            what->output_bytes[o]))
      return complain(w, "output %d lies outside its region", o);
  if (what->workspace_bytes != 0 &&
      !inside(w, {QUERN_WORKSPACE, 0, what->workspace_offset, 0}, what->workspace_bytes))
    return complain(w, "the workspace lies outside its region");
  w->tensors = *what;
  w->slots = slots;
  return 0;
}

extern "C" int32_t quern_window_before_call(quern_window* w, const quern_order* order) {
  const auto& t = w->tensors;
  if (w->calls >= QUERN_MOST_CALLS)
    return complain(w, "more than %d calls in a window", QUERN_MOST_CALLS);
  if (order->slot < 0 || order->slot >= w->slots || order->round < 0 ||
      order->round >= QUERN_MOST_ROUNDS || order->changed_input >= t.inputs)
    return complain(w, "slot %d of %d, round %d, input %d", order->slot, w->slots, order->round,
                    order->changed_input);
  quern::gpu::preparation what;
  what.word = order->poison;
  for (int32_t i = 0; i < t.inputs; ++i)
    what.add(w->writable_inputs.address + t.input_offset[i], content_of(t, *order, i));
  for (int32_t o = 0; o < t.outputs; ++o)
    what.add(w->regions[QUERN_OUTPUTS].address + t.output_offset[o] +
                 static_cast<uint64_t>(order->slot) * t.output_stride,
             t.output_bytes[o]);
  if (t.workspace_bytes != 0)
    what.add(w->regions[QUERN_WORKSPACE].address + t.workspace_offset,
             (t.workspace_bytes + 3) / 4 * 4);
  if (settle(w, quern::gpu::prepare(w->stream, what), "content and poison") < 0) return -1;
  if (w->calls == 0) w->started_ns = quern::gpu::clock_ns();
  if (change_some(w, *order) < 0) return -1;
  if (w->settings.flush_bytes != 0 &&
      settle(w, quern::gpu::read_through(w->stream, w->flush, w->settings.flush_bytes, w->sink),
             "flushing the cache") < 0)
    return -1;
  return settle(w, cudaEventRecord(w->before[static_cast<size_t>(w->calls)], w->stream),
                "an event");
}

extern "C" int32_t quern_window_after_call(quern_window* w) {
  const auto at = static_cast<size_t>(w->calls++);
  return settle(w, cudaEventRecord(w->after[at], w->stream), "an event");
}

extern "C" int32_t quern_window_after_beside(quern_window* w) {
  if (w->calls < 1 || w->last_beside != w->calls - 1)
    return complain(w, "work beside call %d, told behind call %d", w->last_beside + 1, w->calls);
  const auto at = static_cast<size_t>(w->last_beside++);
  return settle(w, cudaEventRecord(w->beside[at], w->stream), "an event");
}

extern "C" int32_t quern_window_end(quern_window* w, uint32_t* ns, int32_t capacity,
                                    int32_t* count) {
  const uint64_t opened = quern::gpu::clock_ns();
  *w->gate = w->turn;
  if (settle(w, cudaDeviceSynchronize(), "running") < 0) return -1;
  w->clocks = {w->started_ns - w->begun_ns, opened - w->begun_ns, quern::gpu::clock_ns() - opened};
  uint64_t beside_ns = 0;
  for (int32_t i = 0; i < w->last_beside; ++i) {
    float ms = 0;
    if (settle(w,
               cudaEventElapsedTime(&ms, w->after[static_cast<size_t>(i)],
                                    w->beside[static_cast<size_t>(i)]),
               "reading an event") < 0)
      return -1;
    beside_ns += static_cast<uint64_t>(static_cast<double>(ms) * 1e6);
  }
  w->clocks.run_ns -= beside_ns < w->clocks.run_ns ? beside_ns : 0;
  *count = w->calls < capacity ? w->calls : capacity;
  for (int32_t i = 0; i < *count; ++i) {
    float ms = 0;
    if (settle(w,
               cudaEventElapsedTime(&ms, w->before[static_cast<size_t>(i)],
                                    w->after[static_cast<size_t>(i)]),
               "reading an event") < 0)
      return -1;
    // A call of more than four seconds takes four: it must not look short.
    const double exact = static_cast<double>(ms) * 1e6;
    ns[i] = exact < UINT32_MAX ? static_cast<uint32_t>(exact > 0 ? exact : 0) : UINT32_MAX;
  }
  return 0;
}

extern "C" void quern_window_abandon(quern_window* w) {
  // What was queued must not be left at the gate.
  *w->gate = w->turn;
}

extern "C" quern_window_clocks quern_window_clocks_of(const quern_window* w) {
  return w->clocks;
}

extern "C" int32_t quern_window_warm_up(quern_window* w) {
  int l2_bytes = 0;
  if (settle(w, cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, w->device),
             "the size of the cache") < 0)
    return -1;
  const quern_window_settings how{2 * static_cast<uint64_t>(l2_bytes), 1000000};
  if (quern_window_begin(w, &how) < 0) return -1;
  quern_content c{};
  c.elements = 64;
  auto at = reinterpret_cast<uint64_t>(w->flush);
  quern::gpu::preparation what;
  for (c.type = QUERN_F32; c.type <= QUERN_F16; ++c.type, at += 1024) {
    what.add(at, c);
    if (settle(w, quern::gpu::fill_elements(w->stream, at, c, 0, 1, 1, 1), "making content") < 0)
      return -1;
  }
  what.add(at, 4096);
  if (settle(w, quern::gpu::prepare(w->stream, what), "content and poison") < 0 ||
      settle(w, quern::gpu::read_through(w->stream, w->flush, w->flush_bytes, w->sink),
             "flushing the cache") < 0 ||
      settle(w, cudaEventRecord(w->before[0], w->stream), "an event") < 0 ||
      settle(w,
             cudaLaunchHostFunc(
                 w->stream, [](void*) {}, nullptr),
             "a host function") < 0 ||
      quern_window_after_call(w) < 0)
    return -1;
  uint32_t ns = 0;
  int32_t count = 0;
  return quern_window_end(w, &ns, 1, &count);
}

extern "C" int32_t quern_window_run(quern_window* w, const quern_window_settings* how,
                                    const quern_order* orders, int32_t count, uint32_t* ns) {
  if (count < 0 || count > QUERN_MOST_CALLS)
    return complain(w, "a window of %d calls, the limit is %d", count, QUERN_MOST_CALLS);
  if (quern_window_begin(w, how) < 0) return -1;
  int32_t result = 0;
  for (int32_t i = 0; i < count && result == 0; ++i) {
    result = quern_window_before_call(w, &orders[i]);
    for (const auto& s : w->steps)
      if (result == 0) result = perform(w, s, orders[i].slot);
    if (result == 0) result = quern_window_after_call(w);
  }
  if (result < 0) {
    quern_window_abandon(w);
    return result;
  }
  int32_t got = 0;
  return quern_window_end(w, ns, count, &got);
}
