/* How much C stack is left.  Unlike a Python function, a callable or generator that stands for another one takes C
 * stack for each call; in a deep recursion it raises RecursionError before the stack overflows. */
#ifndef FXTIO_STACK_H
#define FXTIO_STACK_H

#include "common.h"

extern HIDDEN __thread char *stack_limit FAST_TLS; /* NULL until it is needed first */
HIDDEN int stack_has_room_slow(const char *here);

/* Return whether there is C stack for one more call; if not, RecursionError is set. */
static inline int stack_has_room(void) {
    const char *here = __builtin_frame_address(0);
    return LIKELY(stack_limit && here > stack_limit) || stack_has_room_slow(here);
}

#endif
