// What a process with a GPU gives up of its files before a candidate's shared object is loaded:
// nothing but device nodes can be written from then on, its own memory included.
//
// Code that mprotect protects can still be written through /proc/self/mem, and the sandbox has to
// leave /proc writable while a context is made: the driver names its threads there. Two locks, for
// neither is enough alone:
//
//   undumpable   Linux then gives /proc/self/mem and most of /proc/self to root, for the whole
//                process: also for the thread on which the driver calls host functions of streams.
//                It holds where the process is not root in its user namespace.
//   landlock     Writing is for what lies below /dev, whoever the process is. Linux binds the
//                calling thread alone (and those that it makes), which a candidate is loaded into.
#pragma once

namespace quern::env::runner {

/// The first lock. 0, or errno. It cannot be taken off: the sandbox's filter refuses that.
int make_undumpable();

/// The second one, for the calling thread. 0, or errno: ENOSYS and EOPNOTSUPP where Linux has
/// no Landlock.
int keep_writing_to_devices();

/// Whether the calling thread can open the memory of its process for writing.
bool own_memory_is_writable();

/// Both. With `required` whatever is missing is an error, and so is memory that can be written
/// nevertheless (EACCES); else what the system offers is put on. 0, or errno.
int lock_files(bool required);

}  // namespace quern::env::runner
