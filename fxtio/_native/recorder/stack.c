/* How much C stack is left. */
#define _GNU_SOURCE
#include "stack.h"

#include <pthread.h>

enum { RESERVED = 256 << 10 }; /* bytes that are left for others, or a quarter of a small stack */
__thread char *stack_limit;

/* Return the lowest address of the stack of this thread that may be used. */
static char *find_limit(const char *here) {
    pthread_attr_t attributes;
    void *low = NULL;
    size_t size = 0;
    if (!pthread_getattr_np(pthread_self(), &attributes)) {
        pthread_attr_getstack(&attributes, &low, &size);
        pthread_attr_destroy(&attributes);
    }
    return low ? (char *)low + (size / 4 < RESERVED ? size / 4 : RESERVED) : (char *)here - RESERVED;
}

/* Return whether there is C stack for one more call; if not, RecursionError is set. */
int stack_has_room_slow(const char *here) {
    if (!stack_limit)
        stack_limit = find_limit(here);
    if (here > stack_limit)
        return 1;
    PyErr_SetString(PyExc_RecursionError, "no C stack left for a traced call");
    return 0;
}
