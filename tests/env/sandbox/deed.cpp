// What a sandboxed program may try: one deed, named by the first argument. Exit status 0: it got
// what it wanted; 42: the system refused; anything else, or a signal, speaks for itself.
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "env/runner/file_lock.hpp"
#include "env/runner/gpu_lock.hpp"

namespace {

constexpr int refused = 42;

int from(bool done) {
  return done ? 0 : refused;
}

int fill_memory() {
  std::vector<char*> blocks;
  for (;;) {
    char* block = static_cast<char*>(std::malloc(16 << 20));
    if (block == nullptr) return refused;
    std::memset(block, 1, 16 << 20);
    blocks.push_back(block);
  }
}

int flood(int fd) {
  const std::string block(1 << 20, 'x');
  bool all = true;
  for (int i = 0; i < 1024; ++i)
    all = write(fd, block.data(), block.size()) > 0 && all;
  return from(all);
}

int fill_work_folder() {
  const std::string block(1 << 20, 'x');
  for (int i = 0; i < 1024; ++i) {
    const int fd = open(("part" + std::to_string(i)).c_str(), O_CREAT | O_WRONLY, 0600);
    if (fd < 0 || write(fd, block.data(), block.size()) != static_cast<ssize_t>(block.size()))
      return refused;
    close(fd);
  }
  return 0;
}

/// Every lock of some bytes that fcntl(2) has.
int lock_bytes(const char* path) {
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return 1;
  bool got = false;
  for (const int command : {F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW}) {
    struct flock range {};
    range.l_type = F_WRLCK;
    range.l_start = 1;
    range.l_len = 2;
    got = fcntl(fd, command, &range) == 0 || got;
  }
  return from(got);
}

int endless_loop() {
  volatile std::uint64_t turns = 0;
  for (;;) {
    const std::uint64_t next = turns + 1;
    turns = next;
  }
}

void* no_op(void*) {
  return nullptr;
}

int start_thread() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, no_op, nullptr) != 0) return refused;
  pthread_join(thread, nullptr);
  return 0;
}

// For the compiler's profile, in which processes are allowed: a tree that stays behind.
int leave_descendants() {
  for (int i = 0; i < 3; ++i)
    if (fork() == 0) {
      if (fork() == 0) pause();
      pause();
    }
  return 0;
}

int fork_bomb() {
  int made = 0;
  for (int i = 0; i < 1000; ++i) {
    const pid_t pid = fork();
    if (pid == 0) pause();
    if (pid > 0) ++made;
  }
  std::printf("%d\n", made);
  return made == 1000 ? 0 : refused;
}

int list_descriptors() {
  for (int fd = 0; fd < 1024; ++fd)
    if (fcntl(fd, F_GETFD) >= 0) std::printf("%d ", fd);
  return 0;
}

/// Where code, stack and libraries lie.
int print_addresses() {
  int local = 0;
  std::printf("%p %p %p\n", reinterpret_cast<void*>(&list_descriptors), static_cast<void*>(&local),
              reinterpret_cast<void*>(&getpid));
  return 0;
}

int echo_work_file() {
  char text[64] = {};
  const int fd = open("greeting", O_RDONLY);
  if (fd < 0 || read(fd, text, sizeof text - 1) <= 0) return refused;
  const int out = open("answer", O_CREAT | O_WRONLY, 0644);
  return from(write(out, text, std::strlen(text)) > 0);
}

int change_clock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return from(clock_settime(CLOCK_REALTIME, &now) == 0);
}

int move_to_other_core() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  CPU_SET(1, &set);
  return from(sched_setaffinity(0, sizeof set, &set) == 0);
}

int print_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return refused;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) std::printf("%d ", core);
  return 0;
}

// How many processes /proc shows.
int count_processes() {
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return refused;
  int count = 0;
  while (const dirent* item = readdir(folder))
    if (std::isdigit(static_cast<unsigned char>(item->d_name[0])) != 0) ++count;
  closedir(folder);
  std::printf("%d", count);
  return 0;
}

// Writes the byte that stands there, through a file of the process's memory.
bool writes_own_text() {
  const auto at = reinterpret_cast<std::uintptr_t>(&change_clock);
  unsigned char byte = 0;
  std::memcpy(&byte, reinterpret_cast<const void*>(at), 1);
  const int fd = open("/proc/self/mem", O_RDWR);
  return fd >= 0 && pwrite(fd, &byte, 1, static_cast<off_t>(at)) == 1;
}

// Puts on the locks that are named and prints who can write the text of the process all the same: a
// thread that was there before, as the driver's are, and the one that put them on.
int write_text_behind(const std::string& locks) {
  int go[2], told[2];
  if (pipe(go) != 0 || pipe(told) != 0) return 7;
  struct pipes {
    int go, told;
  } ends{go[0], told[1]};
  pthread_t thread;
  const auto wait_and_try = [](void* given) -> void* {
    const auto* p = static_cast<const pipes*>(given);
    char byte = 0;
    if (read(p->go, &byte, 1) == 1) byte = writes_own_text() ? 'y' : 'n';
    return reinterpret_cast<void*>(write(p->told, &byte, 1));
  };
  if (pthread_create(&thread, nullptr, wait_and_try, &ends) != 0) return 7;
  using namespace quern::env::runner;
  if (locks == "undumpable" || locks == "both")
    if (make_undumpable() != 0) return 8;
  if (locks == "landlock" || locks == "both")
    if (keep_writing_to_devices() != 0) return 9;
  if (locks == "required" && lock_files(true) != 0) return 10;
  char byte = 'g';
  if (write(go[1], &byte, 1) != 1 || read(told[0], &byte, 1) != 1) return 7;
  pthread_join(thread, nullptr);
  std::printf("other thread %s, own %s", byte == 'y' ? "yes" : "no",
              writes_own_text() ? "yes" : "no");
  return 0;
}

// The driver opens its nodes anew after the lock; contents of anything else it must not change.
int open_nodes_behind_lock(const char* node) {
  if (quern::env::runner::lock_files(true) != 0) return 10;
  if (open(node, O_RDWR) < 0 || open(node, O_RDWR | O_TRUNC) < 0) return 11;
  if (open("/proc/self/maps", O_RDONLY) < 0) return 12;
  for (const char* path : {"/proc/self/mem", "/proc/thread-self/mem", "/proc/self/clear_refs",
                           "/proc/self/oom_score_adj", "/proc/thread-self/comm"})
    if (open(path, O_WRONLY) >= 0) {
      std::printf("%s", path);
      return 13;
    }
  return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0 ? 14 : 0;
}

// Calls a candidate of tests/hostile three times on fresh inputs in the same memory. 0: all outputs
// were right; 1: not; 6: it could not be loaded.
int call_candidate(const char* artefact) {
  void* library = dlopen(artefact, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 6;
  }
  using entry = void (*)(const float*, float*, std::int64_t, void*, void*);
  const auto kernel = reinterpret_cast<entry>(dlsym(library, "kernel"));
  constexpr std::size_t room = 1 << 20;
  const auto memory = [] {
    return static_cast<float*>(mmap(nullptr, room * sizeof(float), PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  };
  float* x = memory();
  float* y = memory() + 64;
  bool right = true;
  int turn = 0;
  for (const std::int64_t n : {7, 1001, 1001}) {
    ++turn;
    for (std::int64_t i = 0; i < n; ++i)
      x[i] = static_cast<float>(turn * 100 + i % 97);
    std::fill(y, y + n, -1.0F);
    kernel(x, y, n, nullptr, nullptr);
    for (std::int64_t i = 0; i < n; ++i)
      right = right && y[i] == 2.0F * static_cast<float>(turn * 100 + i % 97) + 1.0F;
  }
  return right ? 0 : 1;
}

// The same behind the locks of a runner of lane `cuda`, in its order (env/runner/gpu_main.cpp).
int call_behind_locks(const char* artefact) {
  using namespace quern::env::runner;
  if (lock_files(true) != 0 || lock_down(gpu_lock::before_loading) != 0) return 9;
  return call_candidate(artefact);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string deed = argc > 1 ? argv[1] : "";
  const char* argument = argc > 2 ? argv[2] : "";
  // Descriptor argv[3] at its end lets it begin.
  char unused = 0;
  if (argc > 3 && read(std::atoi(argv[3]), &unused, 1) != 0) return 98;
  const std::map<std::string, std::function<int()>> deeds{
      {"nothing", [] { return 0; }},
      {"default-signals",
       [] {
         struct sigaction pipe {
         }, size{};
         sigaction(SIGPIPE, nullptr, &pipe);
         sigaction(SIGXFSZ, nullptr, &size);
         return from(pipe.sa_handler == SIG_DFL && size.sa_handler == SIG_DFL);
       }},
      {"call", [&] { return call_candidate(argument); }},
      {"call-locked", [&] { return call_behind_locks(argument); }},
      {"exit", [&] { return std::atoi(argument); }},
      {"loop", endless_loop},
      {"sleep",
       [] {
         for (;;)
           usleep(100000);
         return 0;
       }},
      {"memory", fill_memory},
      {"flood", [&] { return flood(std::atoi(argument)); }},
      {"fill-work", fill_work_folder},
      {"thread", start_thread},
      {"descendants", leave_descendants},
      {"fork-bomb", fork_bomb},
      {"fork",
       [] {
         const pid_t pid = fork();
         if (pid == 0) _exit(0);
         return from(pid > 0);
       }},
      {"socket", [] { return from(socket(AF_INET, SOCK_STREAM, 0) >= 0); }},
      {"unix-socket", [] { return from(socket(AF_UNIX, SOCK_STREAM, 0) >= 0); }},
      {"ptrace", [] { return from(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0); }},
      {"kill-parent", [] { return from(kill(getppid(), 0) == 0 && getppid() > 0); }},
      {"kill-all", [] { return from(kill(-1, SIGKILL) == 0); }},
      {"unshare", [] { return from(unshare(CLONE_NEWNS) == 0); }},
      {"memory-file", [] { return from(memfd_create("x", 0) >= 0); }},
      {"io-uring", [] { return from(syscall(SYS_io_uring_setup, 1, nullptr) >= 0); }},
      {"clock", change_clock},
      {"core", move_to_other_core},
      {"print-cores", print_cores},
      {"forget-parent", [] { return from(prctl(PR_SET_PDEATHSIG, 0) == 0); }},
      {"lock-bytes", [&] { return lock_bytes(argument); }},
      {"read", [&] { return from(open(argument, O_RDONLY) >= 0); }},
      {"write", [&] { return from(open(argument, O_CREAT | O_WRONLY, 0600) >= 0); }},
      {"remount", [] { return from(umount2("/usr/lib", 2) == 0); }},
      {"execute",
       [&] {
         execl(argument, argument, nullptr);
         return refused;
       }},
      {"abort",
       [] {
         std::abort();
         return 0;
       }},
      {"fault",
       [] {
         raise(SIGSEGV);
         *static_cast<volatile int*>(nullptr) = 1;
         return 0;
       }},
      {"descriptors", list_descriptors},
      {"print-addresses", print_addresses},
      {"uid",
       [] {
         std::printf("%u\n", getuid());
         return 0;
       }},
      {"greet", echo_work_file},
      {"thread-name",
       [] {
         const int fd = open("/proc/thread-self/comm", O_WRONLY | O_TRUNC);
         return from(fd >= 0 && write(fd, "named", 5) == 5);
       }},
      {"processes", count_processes},
      {"text", [&] { return write_text_behind(argument); }},
      {"nodes", [&] { return open_nodes_behind_lock(argument); }},
      {"bind-memory", [] { return from(syscall(SYS_get_mempolicy, 0, 0, 0, 0, 0) == 0); }},
      {"open-device", [&] { return from(open(argument, O_RDWR) >= 0); }},
      // A number that reached the driver is answered by it: "no such order" (ENOTTY).
      {"order",
       [&] {
         const int fd = open("/dev/zero", O_RDWR);
         const long rc = ioctl(fd, std::strtoul(argument, nullptr, 0), nullptr);
         return fd < 0 ? 7 : from(rc == 0 || errno == ENOTTY);
       }},
      {"addresses",
       [] {
         return from(mmap(nullptr, std::size_t{1} << 40, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED);
       }},
      {"wait-for-end",
       [&] {
         char byte;
         return from(read(std::atoi(argument), &byte, 1) == 0);
       }},
  };
  const auto found = deeds.find(deed);
  if (found == deeds.end()) return 99;
  const int code = found->second();
  std::fflush(stdout);
  _exit(code);
}
