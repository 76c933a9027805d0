/* Threads that record at the same time, as on a free-threaded build of CPython: the recorder's modules from `guard` to
 * `thread`, with threads that are made here in place of those of an interpreter.
 *
 * Each thread writes records of its own until the recordings are over, and ends and begins anew now and then.  The main
 * thread begins and ends recordings, of a whole file and of a ring, and copies its size while others record.  After each
 * one the file is walked: each record is whole, and of a file that is no ring as many are there as were written.
 *
 *     tests/sanitize.sh threads      builds and runs this with ThreadSanitizer
 *     .ci/arm64                      does so for ARM64, in an emulator: its clock is checked, too */
#define _GNU_SOURCE
#include "definition.h"
#include "file.h"
#include "thread.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 4, RECORDINGS = 12, DEFINITIONS = 4 * MAX_RECORD_WORDS * 8, RECORDS_PER_LIFE = 60000 };

PyObject none;
static PyInterpreterState interpreter;
static PyThreadState thread_of_python;
static pthread_rwlock_t world = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static int is_over;
static uint64_t written, renewals; /* in the present recording */

/* ---- The interpreter. ---- */

/* Give others the occasion to stop the world, as a hook that runs Python code does. */
static void detach_for_a_while(void) {
    pthread_rwlock_unlock(&world);
    pthread_rwlock_rdlock(&world);
}

PyObject *PyObject_CallOneArg(PyObject *callable, PyObject *argument) {
    (void)callable, (void)argument;
    detach_for_a_while();
    return Py_NewRef(&none);
}

PyObject *PyObject_CallNoArgs(PyObject *callable) {
    return PyObject_CallOneArg(callable, NULL);
}

PyThreadState *PyThreadState_Get(void) {
    return &thread_of_python;
}

PyInterpreterState *PyInterpreterState_Get(void) {
    return &interpreter;
}

void _PyEval_StopTheWorld(PyInterpreterState *of) {
    (void)of;
    pthread_rwlock_unlock(&world);
    pthread_rwlock_wrlock(&world);
}

void _PyEval_StartTheWorld(PyInterpreterState *of) {
    (void)of;
    pthread_rwlock_unlock(&world);
    pthread_rwlock_rdlock(&world);
}

/* ---- What is checked. ---- */

static void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    exit(1);
}

/* Return how many events a finished file has, each of which must be whole, and of a thread whose ticks grow. */
static uint64_t count_events(int fd, uint64_t size) {
    uint64_t *words = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0), count = 0;
    if (words == MAP_FAILED)
        fail("the file cannot be read");
    for (uint64_t index = 0, length; index < size / 8; index += length) {
        uint64_t header = words[index];
        length = header / SIZE_UNIT % (MAX_RECORD_WORDS + 1);
        if (!length || index + length > size / 8)
            fail("word %llu is no record: %llx", (unsigned long long)index, (unsigned long long)header);
        if ((header & TYPE_MASK) != EVENT_HEADER)
            continue;
        for (uint64_t word = index + 2; word < index + length; word++)
            if (words[word] != words[index + 1])
                fail("the record at word %llu is mixed up", (unsigned long long)index);
        count++;
    }
    munmap(words, size);
    return count;
}

/* Check that the tick counter runs at its rate, if the processor knows that, since both clocks were read. */
static void check_rate(uint64_t ticks, uint64_t ns) {
    enum { NS_PER_SECOND = 1000000000 };
    double seen = (double)(tick_counter() - ticks) * NS_PER_SECOND / (double)(monotonic() - ns);
    if (tick_rate() && (seen < 0.8 * (double)tick_rate() || seen > 1.25 * (double)tick_rate()))
        fail("the counter runs at %.0f Hz, and not at %llu", seen, (unsigned long long)tick_rate());
}

/* ---- Threads. ---- */

/* Write a record whose words are all its tick. */
static void record(unsigned words) {
    State *state = current;
    uint64_t *room = thread_room(&state, words);
    if (!room)
        return;
    uint64_t tick = next_tick(state);
    for (unsigned index = 1; index < words; index++)
        room[index] = tick;
    commit(state, room, words, EVENT_HEADERS[EVENT_INSTANT] + words * SIZE_UNIT + state->identity.thread_ref);
    count_more(&written, 1);
}

/* Write a definition. */
static void define(uint64_t number) {
    uint64_t definition[2] = {STRING_HEADER + STRING_SLOT_UNIT + 8 * STRING_SIZE_UNIT + 2 * SIZE_UNIT, number};
    guard_lock();
    (void)definition_write(definition, sizeof definition);
    guard_unlock();
}

/* The life of a thread. */
static void *live(void *number) {
    unsigned dice = (unsigned)(uintptr_t)number;
    pthread_rwlock_rdlock(&world);
    for (int index = 0; index < RECORDS_PER_LIFE && !READ(is_over); index++) {
        dice = dice * 1103515245u + 12345u;
        record(2 + (dice >> 16) % 12);
        do_duty(current);
        if ((dice >> 8) % 64 == 0)
            define(dice);
        if ((dice >> 8) % 16 == 0)
            detach_for_a_while();
    }
    pthread_rwlock_unlock(&world);
    return NULL;
}

/* Live again and again. */
static void *live_on(void *number) {
    while (!READ(is_over)) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, live, number))
            fail("no thread");
        pthread_join(thread, NULL);
    }
    return NULL;
}

/* ---- Recordings. ---- */

static void renew(Trash *trash) {
    (void)trash;
    renewals++;
}

static void begin(int fd, uint64_t ring) {
    uint64_t fill[MAX_RECORD_WORDS] = {filler(MAX_RECORD_WORDS)}, *blank = threads_blank_chunk();
    Trash trash = {0};
    if (ftruncate(fd, 0))
        fail("the file cannot be emptied");
    for (uint64_t offset = 0; offset < DEFINITIONS; offset += sizeof fill)
        if (pwrite(fd, fill, sizeof fill, (off_t)offset) != sizeof fill)
            fail("the file cannot be written");
    uint64_t end = DEFINITIONS + PAGE_BYTES - DEFINITIONS % PAGE_BYTES;
    fill[0] = filler((end - DEFINITIONS) / 8);
    if (pwrite(fd, fill, end - DEFINITIONS, DEFINITIONS) != (ssize_t)(end - DEFINITIONS))
        fail("the file cannot be written");
    world_stop();
    threads_stop(&trash);
    file_stop();
    if (file_start(fd, end, 0, ring))
        fail("the file cannot be used");
    threads_start(blank);
    definition_start(0, DEFINITIONS);
    session.has_counter = *TICK_COUNTER != 0;
    session.base = raw_clock(session.has_counter);
    session.min_step = 1;
    session.lost = session.lost_since = written = 0;
    session.generation++;
    session.active = 1;
    session.objects.thread_hook = &none;
    world_start();
    trash_empty(&trash);
}

/* End a recording.  Returns how many events were lost. */
static uint64_t end(int fd, int is_ring, uint64_t *size, uint64_t *expected) {
    Trash trash = {0};
    world_stop();
    threads_seal();
    if (!is_ring && threads_settle())
        fail("there was no room");
    *expected = written;
    *size = file_end();
    threads_stop(&trash);
    uint64_t lost = session.lost;
    file_stop();
    session.generation++;
    world_start();
    trash_empty(&trash);
    (void)fd;
    return lost;
}

int main(void) {
    pthread_t threads[THREADS];
    uint64_t total = 0;
    FILE *file = tmpfile();
    int fd = file ? fileno(file) : -1;
    if (fd < 0 || threads_init())
        fail("no file");
    session_init();
    const uint64_t first_tick = tick_counter(), first_ns = monotonic();
    threads_set_renewal_hook(renew);
    pthread_rwlock_rdlock(&world);
    for (uintptr_t number = 0; number < THREADS; number++)
        if (pthread_create(&threads[number], NULL, live_on, (void *)(number + 1)))
            fail("no thread");
    for (int recording = 0; recording < RECORDINGS; recording++) {
        int is_ring = recording % 3 == 2;
        uint64_t size, expected;
        begin(fd, is_ring ? 8 * CHUNK_BYTES : 0);
        for (int pause = 0; pause < 20; pause++) {
            pthread_rwlock_unlock(&world);
            usleep(5000);
            pthread_rwlock_rdlock(&world);
            world_stop();
            total += threads_lost() + file_end() == 0; /* as a dump does */
            world_start();
        }
        uint64_t lost = end(fd, is_ring, &size, &expected), found = count_events(fd, size);
        if (is_ring ? found > expected : found != expected)
            fail("recording %d has %llu events of %llu", recording, (unsigned long long)found,
                 (unsigned long long)expected);
        if (lost && !is_ring)
            fail("recording %d lost %llu events", recording, (unsigned long long)lost);
        total += found;
    }
    check_rate(first_tick, first_ns);
    WRITE(is_over, 1);
    pthread_rwlock_unlock(&world);
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    if (!renewals)
        fail("no ring was ever half full");
    printf("%llu events of %d threads in %d recordings\n", (unsigned long long)total, THREADS, RECORDINGS);
    return 0;
}
