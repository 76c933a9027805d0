/* How much C stack is left. */
#define _GNU_SOURCE
#include "stack.h"

#include <pthread.h>

enum { RESERVED = 256 << 10 }; /* bytes that are left for others, or a quarter of a small stack */
__thread char *stack_limit;

/* Return the lowest address of the stack of this thread, and its size in bytes; NULL if the system does not say. */
static char *find_stack(size_t *size) {
#if defined(__APPLE__)
    *size = pthread_get_stacksize_np(pthread_self());
    return (char *)pthread_get_stackaddr_np(pthread_self()) - *size; /* that of its other end */
#elif defined(__linux__)
    pthread_attr_t attributes;
    void *low = NULL;
    if (!pthread_getattr_np(pthread_self(), &attributes)) {
        pthread_attr_getstack(&attributes, &low, size);
        pthread_attr_destroy(&attributes);
    }
    return low;
#else
    (void)size;
    return NULL;
#endif
}

/* Return the lowest address of the stack of this thread that may be used. */
static char *find_limit(const char *here) {
    size_t size = 0;
    char *low = find_stack(&size);
    return low ? low + (size / 4 < RESERVED ? size / 4 : RESERVED) : (char *)here - RESERVED;
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
