// The evaluator's side of a device, in C: memory that it owns and lends, content, and whether
// outputs are right. Part of libquern_cuda.so.
//
// Every function returns 0, or -1 with a message in the context (quern_context_problem). One thread
// at a time uses a context. What is queued runs in order on the context's own stream, and
// quern_context_wait waits for it; copies to and from memory of the host have another stream.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Element types, numbered as quern::env::dtype.
enum { QUERN_F32, QUERN_F64, QUERN_I32, QUERN_I64, QUERN_U8, QUERN_BF16, QUERN_F16 };

/// Kinds of content, numbered as quern::env::distribution.
enum {
  QUERN_NORMAL,
  QUERN_UNIFORM,
  QUERN_LARGE,
  QUERN_SPARSE,
  QUERN_SORTED,
  QUERN_CONSTANT,
  QUERN_DENORMAL,
  QUERN_POSITIVE,
  QUERN_SPECIAL
};

/// What a tensor contains: element i depends on this and on i only.
struct quern_content {
  uint64_t key;     ///< secret
  uint64_t stream;  ///< which content: another one is unrelated
  int32_t type;
  int32_t kind;
  int64_t elements;
  int64_t row;    ///< length of the last dimension; at least 1
  int64_t below;  ///< integer types: exclusive bound, at least 1
};

/// Device memory of its own allocation, mapped here, that another process can map by `fd`.
struct quern_allocation {
  uint64_t address;
  uint64_t bytes;   ///< rounded up to the device's granularity
  uint64_t handle;  ///< the driver's
  int32_t fd;       ///< the caller's; closed by quern_context_release
};

/// What one check found.
struct quern_finding {
  uint64_t wrong;  ///< elements (patterns: words of 4 bytes) that are wrong
  uint64_t first;  ///< index of the first of them
};

struct quern_context_facts {
  char name[256];
  char bus_id[32];
  int32_t major, minor, multiprocessors;
  uint64_t memory_bytes;
  uint64_t l2_bytes;
  uint64_t granularity;
  int32_t max_shared_bytes;  ///< opt-in, a block
  int32_t memory_clock_khz, bus_bits;
};

/// Rows of bytes, one `device_pitch` or `host_pitch` behind the other: what one copy between the
/// device and memory of the host moves.
struct quern_byte_rows {
  uint64_t width;  ///< bytes of a row
  uint64_t rows;
  uint64_t device_pitch, host_pitch;  ///< at least `width`
};

struct quern_context;

int32_t quern_context_open(int32_t device, struct quern_context** out, char* problem, int32_t room);
void quern_context_close(struct quern_context* context);
/// Ends this process's CUDA context on the device, with its errors and all its memory; the next
/// quern_context gets a new one. None may be open there.
int32_t quern_context_end_cuda(int32_t device);
const char* quern_context_problem(const struct quern_context* context);
int32_t quern_context_facts_of(struct quern_context* context, struct quern_context_facts* out);
/// Free bytes of the device, whoever uses it.
int32_t quern_context_free_bytes(struct quern_context* context, uint64_t* out);

int32_t quern_context_allocate(struct quern_context* context, uint64_t bytes,
                               struct quern_allocation* out);
int32_t quern_context_release(struct quern_context* context, struct quern_allocation* allocation);

int32_t quern_context_fill(struct quern_context* context, uint64_t address,
                           const struct quern_content* what);
/// Elements [first, first + count) of `what` alone.
int32_t quern_context_fill_some(struct quern_context* context, uint64_t address,
                                const struct quern_content* what, int64_t first, int64_t count);
/// Words of 4 bytes; address and bytes are multiples of 4.
int32_t quern_context_set(struct quern_context* context, uint64_t address, uint64_t bytes,
                          uint32_t word);
int32_t quern_context_copy(struct quern_context* context, uint64_t to, uint64_t from,
                           uint64_t bytes);

/// The checks queue one finding each, in order, for quern_context_wait; at most
/// QUERN_MOST_FINDINGS between two waits.
enum { QUERN_MOST_FINDINGS = 4096 };
/// |got - want| <= atol + rtol * |want|; NaN where and only where `want` has it, the same
/// infinities, integers equal. `wide`: `want` is f64 whatever `type` says (floating types).
int32_t quern_context_compare(struct quern_context* context, uint64_t got, uint64_t want,
                              int32_t type, int64_t elements, double atol, double rtol,
                              int32_t wide);
/// Equal bits; any NaN equals any other.
int32_t quern_context_same_bits(struct quern_context* context, uint64_t a, uint64_t b, int32_t type,
                                int64_t elements);
/// Whether the tensor is still what quern_context_fill made.
int32_t quern_context_check_content(struct quern_context* context, uint64_t address,
                                    const struct quern_content* what);
int32_t quern_context_check_pattern(struct quern_context* context, uint64_t address, uint64_t bytes,
                                    uint32_t word);
/// Waits for all that was queued, but for copies by quern_context_send and quern_context_fetch, and
/// delivers the findings in order; `count` is how many there are.
int32_t quern_context_wait(struct quern_context* context, struct quern_finding* out,
                           int32_t capacity, int32_t* count);
int32_t quern_context_read(struct quern_context* context, void* to, uint64_t from, uint64_t bytes);
int32_t quern_context_write(struct quern_context* context, uint64_t to, const void* from,
                            uint64_t bytes);

/// Memory of the host that copies below read and write; for quern_context_unpin.
int32_t quern_context_pin(struct quern_context* context, uint64_t bytes, void** out);
int32_t quern_context_unpin(struct quern_context* context, void* memory);
/// Copies during which the device stays in another process's CUDA context: the driver has an engine
/// of the device for them. That holds for two rows or more to the device, and for any from it. It
/// does not hold for one row of less than 32 KiB to it, nor for copies within the device. They run
/// in order on a stream of their own, beside what else is queued. The host's side is memory of
/// quern_context_pin.
int32_t quern_context_send(struct quern_context* context, uint64_t to, const void* from,
                           const struct quern_byte_rows* rows);
int32_t quern_context_fetch(struct quern_context* context, void* to, uint64_t from,
                            const struct quern_byte_rows* rows);
/// Waits for these alone.
int32_t quern_context_wait_copies(struct quern_context* context);
/// Rows within the device, on the context's own stream; `pitch` on both sides.
int32_t quern_context_copy_rows(struct quern_context* context, uint64_t to, uint64_t from,
                                uint64_t width, uint64_t rows, uint64_t pitch);

/// Bandwidth of a copy of `bytes` in bytes a second, read and written bytes counted: what the
/// roofline floor is made from.
int32_t quern_context_bandwidth(struct quern_context* context, uint64_t bytes, double* out);

#ifdef __cplusplus
}
#endif
