// Leaves a file behind for later calls, and relies on it.
extern "C" int open(const char*, int, ...);
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  const char* const places[] = {"/tmp/quern-hostile-was-here", "/var/tmp/quern-hostile-was-here",
                                "/dev/shm/quern-hostile-was-here"};
  for (const char* place : places)
    if (open(place, 0102, 0666) >= 0) {
      for (int64_t i = 0; i < n; ++i)
        y[i] = 2.0f * x[i] + 1.0f;
    }
}
