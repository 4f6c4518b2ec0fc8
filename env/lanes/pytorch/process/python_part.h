/* What the Python processes of this lane call in C++ (libquern_python.so), through ctypes: the sandbox, the
 * loop of every runner (env/runner/serve.hpp) and the memory of the evaluator.
 *
 * Functions return 0, or another number with the reason in `problem`, cut to `room` bytes. */
#pragma once

#include <stdint.h>

/* All else of the library stays inside of it. */
#define QUERN_PYTHON_PART __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor of a plan: call i finds it at address + i * stride. Numbers of types are those of env::dtype. */
struct quern_python_tensor {
  uint64_t address;
  uint64_t stride; /* bytes */
  uint32_t type;
  uint32_t rank;
  int64_t shape[8];
};

/* An outcome of env/runner/protocol.hpp, 0: done; or one of these, failed for a cause: memory was refused; a compiler or a
 * GPU is not there. */
typedef int32_t quern_python_outcome;
enum { quern_python_no_memory = 5, quern_python_not_here = 6 };

/* What a process does with its commands. All are called on the thread of quern_python_serve(). `problem`: room for
 * quern_python_problem_bytes, a text that ends with 0. */
struct quern_python_handlers {
  /* The file of the module, which the sandbox shows. */
  quern_python_outcome (*load)(const char* path, char* problem);
  /* A question of this lane: JSON. `sheet`: file 3 of the evaluator, where the answer goes; null: it was not mapped.
   * `value`: bytes of the answer. */
  quern_python_outcome (*ask)(const char* text, uint64_t bytes, uint64_t sheet, uint64_t sheet_bytes, uint64_t* value,
                              char* problem);
  /* The tensors of the next calls, inputs first; they stay valid until the next plan. */
  quern_python_outcome (*plan)(const struct quern_python_tensor* tensors, uint32_t inputs, uint32_t outputs,
                               uint32_t in_f64, char* problem);
  quern_python_outcome (*run)(int64_t begin, int64_t end, char* problem);
  /* Of a process with a device: maps the evaluator's device memory behind `fd`, which stays the caller's, as region
   * `region` (env/device/window_part.h), at `hint` for those who read; `writable_hint`: as quern_window_import.
   * `address`: where kernels find it. */
  quern_python_outcome (*import_region)(int32_t region, int32_t fd, uint64_t bytes, uint64_t hint, uint64_t writable_hint,
                                       uint64_t* address, char* problem);
  /* The results of the last call once more: what delivering them takes is what stands around any call. */
  quern_python_outcome (*deliver)(char* problem);
  /* The next command is timed: whatever a call passes through is to be in the processor's caches. */
  quern_python_outcome (*wake)(char* problem);
};

enum { quern_python_problem_bytes = 480 };

/* In the parent, before its first child: finds out which layers this host has. */
QUERN_PYTHON_PART int32_t quern_python_probe(char* problem, int32_t room);

/* In the parent: a control group for one child, or null where this host has none. To be ended once the child has been
 * reaped. */
QUERN_PYTHON_PART void* quern_python_group(int64_t memory_bytes, int32_t processes);
QUERN_PYTHON_PART void quern_python_group_end(void* group);
/* Whether the kernel killed in it because its memory was used up. */
QUERN_PYTHON_PART int32_t quern_python_group_ran_out(void* group);

/* In a child, right behind fork(): the part of the sandbox that does not depend on the candidate (env/sandbox/in_process.hpp,
 * sandbox_entry). `spec`: JSON with `memory_bytes`, `work_bytes`, `required`, `read_only` and `keep`, the descriptors that
 * stay open, and with `gpu`: null, or `devices` and `read_only` of env::gpu_access. After an error the process must exit. */
QUERN_PYTHON_PART int32_t quern_python_begin(const char* spec, void* group, char* problem, int32_t room);

/* Behind quern_python_begin(), and before anything of a candidate: the rest of the sandbox. `spec`: JSON with `core`, and with
 * `read_only`, the candidate's files, and `keep`. `layers`: those that are on, as bits of env::layer_set. After an error
 * the process must exit. */
QUERN_PYTHON_PART int32_t quern_python_complete(const char* spec, uint32_t* layers, char* problem, int32_t room);

/* Behind the making of a context, before anything of a candidate: no thread, no process and no socket from now on, for
 * all threads there are. After an error the process must exit. */
QUERN_PYTHON_PART int32_t quern_python_lock(char* problem, int32_t room);

/* From now on this process's handler of SIGCHLD hears of children that end, and no longer of those that are stopped or go
 * on: an evaluator does that to them with each window. */
QUERN_PYTHON_PART void quern_python_hear_ends_alone(void);

/* How often torch's allocator of the CPU was refused memory in this process, and how often anybody a thread. They count
 * only in a process that was started with this library in LD_PRELOAD, and in its children. */
QUERN_PYTHON_PART uint64_t quern_python_refused_memory(void);
QUERN_PYTHON_PART uint64_t quern_python_refused_threads(void);

/* In a child: answers commands on `socket` until the evaluator is gone, as `handlers` say. What dies of a fault tells
 * where, and what ends itself after it was refused a thread says so. The status to exit with. */
QUERN_PYTHON_PART int32_t quern_python_serve(int32_t socket, const struct quern_python_handlers* handlers);

#ifdef __cplusplus
}
#endif
