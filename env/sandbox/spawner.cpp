// The thread that starts children and ends them in time.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env/sandbox/child_state.hpp"
#include "env/sandbox/launch.hpp"

namespace quern::env {
namespace {

using clock = std::chrono::steady_clock;

// A memory file of fixed size: writes past its end fail, nobody has to read while the child writes.
base::expected<base::unique_fd> make_capture(std::int64_t limit) {
  base::unique_fd file(memfd_create("output", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ftruncate(file.get(), limit) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    return base::fail_errno("making a memory file for a child's output");
  return file;
}

// A folder of `uid` within a held one, which stays this user's: who clears held folders leaves
// those of other users alone.
base::expected<std::string> give_folder_in(const std::filesystem::path& held, uid_t uid) {
  const std::string inner = held / "work";
  if (chmod(held.c_str(), 0711) != 0 || mkdir(inner.c_str(), 0700) != 0 ||
      chown(inner.c_str(), uid, uid) != 0)
    return base::fail_errno("giving a work folder to a sandboxed child");
  return inner;
}

}  // namespace

struct spawner::state {
  layer_set layers;
  /// What of this host children get, and what they must have.
  host_facts facts;
  sandbox_mode mode = sandbox_mode::required;
  int landlock_abi = 0;
  bool root = false;
  cgroup_place cgroups;
  base::unique_fd null_device, life_read, life_write;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> orders;          // guarded by mutex
  std::vector<std::weak_ptr<child::state>> running;  // guarded by mutex
  bool stopping = false;                             // guarded by mutex
  std::thread thread;

  void run();
  void end_what_is_over();
  base::expected<embryo> clone_there(setup_plan& plan, char* const* argv, char* const* envp);
};

// Ends children whose time is over; returns with the lock held as it was.
void spawner::state::end_what_is_over() {
  const auto now = clock::now();
  std::erase_if(running, [&](const auto& weak) {
    const auto item = weak.lock();
    if (!item) return true;
    const std::lock_guard lock(item->mutex);
    if (item->end) return true;
    if (item->deadline > now) return false;
    item->timed_out = true;
    item->strike();
    return true;
  });
}

void spawner::state::run() {
  prctl(PR_SET_NAME, "quern-spawner", 0, 0, 0);
  std::unique_lock lock(mutex);
  while (!stopping) {
    if (!orders.empty()) {
      const auto order = std::move(orders.front());
      orders.pop_front();
      lock.unlock();
      order();
      lock.lock();
      continue;
    }
    auto next = clock::time_point::max();
    for (const auto& weak : running)
      if (const auto item = weak.lock()) next = std::min(next, item->deadline);
    if (next == clock::time_point::max()) {
      changed.wait(lock);
    } else {
      changed.wait_until(lock, next);
    }
    end_what_is_over();
  }
}

base::expected<embryo> spawner::state::clone_there(setup_plan& plan, char* const* argv,
                                                   char* const* envp) {
  std::promise<base::expected<embryo>> promise;
  auto result = promise.get_future();
  {
    const std::lock_guard lock(mutex);
    orders.emplace_back([&] { promise.set_value(clone_embryo(plan, argv, envp)); });
  }
  changed.notify_one();
  return result.get();
}

spawner::spawner(std::shared_ptr<state> s) : state_(std::move(s)) {}

layer_set spawner::layers() const {
  return state_->layers;
}

base::expected<std::unique_ptr<spawner>> spawner::create(sandbox_mode mode) {
  return create(mode, layer_set::all());
}

base::expected<std::unique_ptr<spawner>> spawner::create(sandbox_mode mode, layer_set allowed) {
  host_facts facts = probe_host();
  facts.available = facts.available & allowed;
  if (!facts.available.has(layer::mountns)) facts.available.remove(layer::read_only_root);
  if (!facts.root && !facts.available.has(layer::userns))
    for (const layer which : {layer::mountns, layer::pidns, layer::netns, layer::ipcns,
                              layer::utsns, layer::read_only_root})
      facts.available.remove(which);
  // Who is not root becomes another user only by way of a user namespace, and cannot give that user
  // a folder of the host to work in.
  if (geteuid() != 0 &&
      (!facts.available.has(layer::userns) || !facts.available.has(layer::mountns)))
    facts.available.remove(layer::foreign_uid);
  QUERN_CHECK(admit(facts, mode));
  auto made = std::make_shared<state>();
  made->layers = facts.available;
  made->facts = facts;
  made->mode = mode;
  made->landlock_abi = facts.landlock_abi;
  made->root = facts.root;
  if (facts.available.has(layer::cgroup1) || facts.available.has(layer::cgroup2)) {
    made->cgroups = facts.cgroups;
    sweep_cgroups(made->cgroups);
  }
  made->null_device.reset(open("/dev/null", O_RDWR | O_CLOEXEC));
  int life[2];
  if (!made->null_device || pipe2(life, O_CLOEXEC) != 0)
    return base::fail_errno("preparing to start sandboxed children");
  made->life_read.reset(life[0]);
  made->life_write.reset(life[1]);
  // Descendants of a child that ended first come to this process, which kills and reaps them.
  if (!made->layers.has(layer::pidns)) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  made->thread = std::thread([raw = made.get()] { raw->run(); });
  return std::unique_ptr<spawner>(new spawner(std::move(made)));
}

spawner::~spawner() {
  std::vector<std::weak_ptr<child::state>> left;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    left.swap(state_->running);
  }
  state_->changed.notify_one();
  for (const auto& weak : left)
    if (auto item = weak.lock()) {
      child last(std::move(item));
      last.kill();
    }
  state_->thread.join();
}

base::expected<std::unique_ptr<child>> spawner::spawn(const child_spec& spec) {
  // RLIMIT_AS, which was enough for create(), is not set for it.
  if (spec.gpu) QUERN_CHECK(admit(state_->facts, state_->mode, sandboxed_code::on_gpu));
  QUERN_TRY(auto plan, make_setup_plan(spec, state_->layers, state_->landlock_abi, true));
  plan.userns_first = !state_->root && state_->layers.has(layer::userns);
  plan.life_fd = state_->life_read.get();
  if (spec.life_as >= 3) plan.descriptors.push_back({plan.life_fd, spec.life_as});

  auto made = std::make_shared<child::state>();
  made->own_pids = state_->layers.has(layer::pidns);
  made->cpu_s = spec.limits.cpu_s;
  made->wall_s = spec.limits.wall_s;
  const auto attach = [&](const child_stream& stream, int number,
                          base::unique_fd& capture) -> base::status {
    int fd = state_->null_device.get();
    if (stream.stream_kind == child_stream::kind::given) fd = stream.fd;
    if (stream.stream_kind == child_stream::kind::capture) {
      QUERN_TRY(capture, make_capture(stream.limit));
      fd = capture.get();
    }
    plan.descriptors.push_back({fd, number});
    return {};
  };
  base::unique_fd unused;
  QUERN_CHECK(attach(spec.in, 0, unused));
  QUERN_CHECK(attach(spec.out, 1, made->out));
  QUERN_CHECK(attach(spec.err, 2, made->err));
  if (!plan.want.has(layer::mountns) && spec.limits.work_bytes > 0) {
    QUERN_TRY(auto folder, base::temp_folder::make_held(work_folder_prefix));
    plan.work = folder.path().string();
    if (plan.drop_uid) {
      QUERN_TRY(plan.work, give_folder_in(folder.path(), plan.uid));
    }
    made->host_work.emplace(std::move(folder));
  }
  if (state_->cgroups.version != 0) {
    QUERN_TRY(auto group, cgroup_leaf::create(state_->cgroups, spec.limits.memory_bytes,
                                              spec.limits.processes));
    made->group.emplace(std::move(group));
  }

  std::vector<char*> argv, envp;
  for (const auto& item : spec.argv)
    argv.push_back(const_cast<char*>(item.c_str()));
  for (const auto& item : spec.env)
    envp.push_back(const_cast<char*>(item.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  QUERN_TRY(auto embryo, state_->clone_there(plan, argv.data(), envp.data()));
  QUERN_TRY(auto born, release(embryo, plan, made->group ? &*made->group : nullptr, nullptr));
  made->pid = embryo.pid;
  made->pidfd = std::move(embryo.pidfd);
  made->layers = born.layers;
  made->work = std::move(born.work);
  if (spec.limits.wall_s > 0)
    made->deadline = clock::now() + std::chrono::duration_cast<clock::duration>(
                                        std::chrono::duration<double>(spec.limits.wall_s));
  {
    const std::lock_guard lock(state_->mutex);
    state_->running.push_back(made);
  }
  state_->changed.notify_one();
  return std::make_unique<child>(std::move(made));
}

}  // namespace quern::env
