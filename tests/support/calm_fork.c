/* A fork that the address sanitizer can bear: GCC's, before version 14, copies the locks of its allocator as they are.
 *
 * A thread that was joined may still be giving back its memory.  If another thread forks meanwhile, the child waits
 * without end for the lock when it begins a thread.  So a fork waits until every other thread sleeps; for a second at
 * most, since one that computes does not.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 2000, PAUSE_US = 500 };

/* Return whether a thread sleeps, or has ended. */
static int sleeps(const char *thread) {
    char path[512], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", thread);
    FILE *file = fopen(path, "r");
    if (!file)
        return 1;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *name_end = strrchr(text, ')'); /* the name before it may contain anything */
    return !name_end || !strncmp(name_end, ") S", 3);
}

/* Return whether every other thread of the process sleeps. */
static int others_sleep(void) {
    int sleep = 1;
    DIR *threads = opendir("/proc/self/task");
    for (struct dirent *entry; threads && (entry = readdir(threads));)
        if (atoi(entry->d_name) && atoi(entry->d_name) != gettid())
            sleep &= sleeps(entry->d_name);
    if (threads)
        closedir(threads);
    return sleep;
}

static void before_fork(void) {
    for (int i = 0; i < TRIES && !others_sleep(); i++)
        usleep(PAUSE_US);
}

__attribute__((constructor)) static void prepare(void) {
    pthread_atfork(before_fork, NULL, NULL);
}
