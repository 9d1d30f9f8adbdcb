/* libnvidia-ml.so.1 of a machine with three GPUs, for machines without any.

   FAKE_NVML_INIT=18       nvmlInit fails with this status
   FAKE_NVML_HANGS=1       this GPU does not answer
   FAKE_NVML_LOST=1        this GPU has fallen off the bus
   FAKE_NVML_PIDS=12,34    compute processes on GPU 0
   FAKE_NVML_DIES=1        asking this GPU ends the process                                    */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } process;

enum { SUCCESS = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, LOST = 15 };

static int is(const char *name, long device) {
    const char *value = getenv(name);
    return value && atol(value) == device - 1;
}

static int of(void *device) { return (int)(long)device - 1; }

int nvmlInit_v2(void) { return getenv("FAKE_NVML_INIT") ? atoi(getenv("FAKE_NVML_INIT")) : SUCCESS; }

const char *nvmlErrorString(int status) {
    return status == 18 ? "Driver/library version mismatch"
         : status == LOST ? "GPU is lost" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(u32 *count) { *count = 3; return SUCCESS; }

int nvmlSystemGetDriverVersion(char *text, u32 length) {
    snprintf(text, length, "580.159.04");
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(u32 index, void **device) {
    *device = (void *)(long)(index + 1);
    if (is("FAKE_NVML_HANGS", index + 1)) for (;;) pause();
    if (is("FAKE_NVML_DIES", index + 1)) raise(SIGSEGV);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *device, u64 memory[3]) {
    if (is("FAKE_NVML_LOST", (long)device)) return LOST;
    memory[0] = 1000; memory[1] = 900; memory[2] = 100;
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *device, char *text, u32 length) {
    snprintf(text, length, "GPU-%d", of(device));
    return SUCCESS;
}

int nvmlDeviceGetName(void *device, char *text, u32 length) {
    snprintf(text, length, "Fake");
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, u32 shares[2]) {
    shares[0] = 10 * of(device); shares[1] = 77;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *device, u32 *value) { *value = 118250; return SUCCESS; }
int nvmlDeviceGetEnforcedPowerLimit(void *device, u32 *value) { *value = 700000; return SUCCESS; }
int nvmlDeviceGetTemperature(void *device, int sensor, u32 *value) { *value = 40; return SUCCESS; }
int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, u64 *value) {
    return NOT_SUPPORTED;
}
int nvmlDeviceGetClockInfo(void *device, int type, u32 *value) { *value = 100 * type; return SUCCESS; }
int nvmlDeviceGetMaxClockInfo(void *device, int type, u32 *value) { *value = 1980; return SUCCESS; }

/* The name before driver 535: the newer one is not there. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, u64 *bits) {
    *bits = 0x44;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, u32 *count, process *found) {
    const char *text = of(device) == 0 ? getenv("FAKE_NVML_PIDS") : NULL;
    u32 room = *count;
    *count = 0;
    for (; text && *text; text += strcspn(text, ","), text += *text == ',') {
        if (*count < room) found[*count] = (process){ (u32)atoi(text), 4096, 0, 0 };
        ++*count;
    }
    return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}
