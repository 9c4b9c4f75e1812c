/* Shifts only the wall clock of a process, by WALLCLOCK_SHIFT seconds: from the monotonic second WALLCLOCK_FROM
   until WALLCLOCK_UNTIL, and where WALLCLOCK_STEP is given, off and on every so many seconds. Monotonic clocks
   and sleeps stay as they are. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

static long shift(void) {
    long step = number("WALLCLOCK_STEP");
    struct timespec monotonic;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &monotonic);
    if (monotonic.tv_sec < number("WALLCLOCK_FROM") || monotonic.tv_sec >= number("WALLCLOCK_UNTIL")) return 0;
    return step && (monotonic.tv_sec / step) % 2 ? 0 : number("WALLCLOCK_SHIFT");
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec real;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &real);
    now->tv_sec = real.tv_sec;
    now->tv_usec = real.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    if (now) *now = real.tv_sec;
    return real.tv_sec;
}
