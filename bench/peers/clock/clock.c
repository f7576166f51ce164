// A clock for programs under an instruction counter, preloaded in front of the real one.
//
// The counter makes everything some fifty times slower, by an amount that depends on the machine and its load, and a
// scheduler that looks at how long its tasks take would decide one thing in one run and another in the next. Here every
// look at the clock takes 60 ms and is said to have taken 300 us: whoever calibrates the time stamp counter against this
// clock finds time running two hundred times slower, in the same number of looks every time.
#define _GNU_SOURCE
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>

enum { STEP_NS = 300 * 1000, TAKES_NS = 60 * 1000 * 1000 };

int clock_gettime(clockid_t clock, struct timespec *out) {
    static atomic_ullong passed;
    const struct timespec pause = {0, TAKES_NS};
    (void)clock;
    syscall(SYS_nanosleep, &pause, 0);
    unsigned long long now = 1000000000ull + atomic_fetch_add(&passed, STEP_NS);
    out->tv_sec = (time_t)(now / 1000000000ull);
    out->tv_nsec = (long)(now % 1000000000ull);
    return 0;
}
