// Leaves a note for the process that is started next, and is honest where there is no place for it.
extern "C" int open(const char*, int, ...);
__attribute__((constructor)) static void act() {
  const char* const places[] = {"/tmp/quern-hostile-was-here", "/var/tmp/quern-hostile-was-here",
                                "/dev/shm/quern-hostile-was-here", "quern-hostile-was-here"};
  for (const char* place : places)
    open(place, 0102, 0666);
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = 2.0f * x[i] + 1.0f;
}
