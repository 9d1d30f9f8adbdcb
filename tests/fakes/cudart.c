// libcudart, as far as a profiler is concerned: tells tests/fakes/nsys what was called.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int tell(const char *event) {
    const char *path = getenv("FAKE_CUDART_EVENTS");
    int file = path == NULL ? -1 : open(path, O_WRONLY);
    if (file < 0) return 0; // without a profiler both do nothing
    int told = write(file, event, strlen(event)) > 0;
    close(file);
    return told ? 0 : 999;
}

int cudaProfilerStart(void) { return tell("start\n"); }
int cudaProfilerStop(void) { return tell("stop\n"); }
