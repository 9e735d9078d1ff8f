/* Functions in C that misbehave; whether the GIL is held in them is for the caller to choose. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile unsigned long turns;
static char *volatile last_kept;

void turn_for_ever(void) {
    for (;;)
        turns++;
}

void doze_for_ever(void) {
    for (;;)
        pause();
}

/* Memory that nobody has a pointer to any more. */
void forget(size_t bytes) {
    last_kept = malloc(bytes);
    if (last_kept)
        memset(last_kept, 7, bytes);
}

/* The child neither execs nor exits, so the kernel keeps the caller in state D. */
void vfork_and_wait(void) {
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        for (;;)
            pause();
    }
}
