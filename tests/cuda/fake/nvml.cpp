// A libnvidia-ml and a libnvToolsExt for tests: one device, whose numbers are fixed, and a list of what was marked.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#define API extern "C" __attribute__((visibility("default")))

static std::string marked;
static int depth = 0;

API int nvmlInit_v2() { return 0; }
API const char* nvmlErrorString(int code) { return code == 6 ? "Not Found" : "Unknown Error"; }
API int nvmlDeviceGetHandleByUUID(const char* name, void** handle) {
  *handle = &depth;
  return std::strcmp(name, "GPU-00000000-0000-0000-0000-000000000000") ? 6 : 0;
}
API int nvmlDeviceGetUtilizationRates(void*, unsigned* rates) {
  rates[0] = 71, rates[1] = 23;
  return 0;
}
API int nvmlDeviceGetTemperature(void*, int sensor, unsigned* value) {
  *value = 45;
  return sensor;
}
API int nvmlDeviceGetPowerUsage(void*, unsigned* value) {
  *value = 123456;
  return 0;
}
API int nvmlDeviceGetClockInfo(void*, int which, unsigned* value) {
  *value = 1000 + unsigned(which);
  return 0;
}
struct Process {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
API int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* list) {
  *count = 1;
  list[0] = {4321, 3ull << 20, 0, 0};
  return 0;
}

API int nvtxRangePushA(const char* text) {
  marked += "<" + std::string(text);
  return depth++;
}
API int nvtxRangePop() {
  marked += ">";
  return --depth;
}
API uint64_t nvtxRangeStartA(const char* text) {
  marked += "(" + std::string(text);
  return 1ull << 40;
}
API void nvtxRangeEnd(uint64_t id) { marked += id == 1ull << 40 ? ")" : "?"; }
API void nvtxMarkA(const char* text) { marked += "!" + std::string(text); }
API const char* fake_marked() { return marked.c_str(); }
