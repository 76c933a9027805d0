/* The file that is recorded to: where its chunks lie, and how they get there.  store.c says what a chunk is. */
#define _GNU_SOURCE
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/magic.h>
#include <sys/vfs.h>
#endif

enum { WINDOW = 1 << 22, MOST_RESERVED = 1 << 22 };

static struct {
    int fd;
    dev_t device;         /* which file that is: a program may close what is not its own */
    ino_t inode;
    uint64_t begin;       /* of the first chunk, in bytes */
    uint64_t end;         /* of the file */
    uint64_t reserved;    /* to where the file system has been asked for room */
    uint64_t limit;       /* it does not grow beyond */
    char *window;         /* a piece of the file, for the first words of chunks */
    uint64_t window_at;
    uint64_t *ring, ring_room, ring_count, ring_next; /* where chunks lie that may be overwritten */
} file;

/* Whether the descriptor still is our file. */
static int is_ours(void) {
    struct stat status;
    return !fstat(file.fd, &status) && status.st_dev == file.device && status.st_ino == file.inode;
}

int file_start(int fd, uint64_t end, uint64_t limit, uint64_t ring) {
    struct stat status;
    memset(&file, 0, sizeof file);
    if (fstat(fd, &status)) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    file.fd = fd;
    file.device = status.st_dev;
    file.inode = status.st_ino;
    file.begin = file.end = end;
    file.limit = limit ? limit : UINT64_MAX;
    file.ring_room = (ring + CHUNK_BYTES - 1) / CHUNK_BYTES;
    if (ring && !(file.ring = calloc(file.ring_room, sizeof(uint64_t)))) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* Give back the room that was reserved and not needed. */
static void release(void) {
    int reserved = file.reserved != UINT64_MAX && file.reserved > file.end;
    if (reserved && is_ours() && ftruncate(file.fd, (off_t)file.end)) { /* then it stays */
    }
}

void file_stop(void) {
    release();
    if (file.window)
        munmap(file.window, WINDOW);
    free(file.ring);
    memset(&file, 0, sizeof file);
}

/* The child of a fork changes nothing about its parent's file. */
void file_in_child(void) {
    file.reserved = UINT64_MAX;
}

uint64_t file_end(void) {
    return file.end;
}

/* Its descriptor, -1 if that is none any more. */
int file_descriptor(void) {
    return is_ours() ? file.fd : -1;
}

int file_write(const void *data, size_t size, uint64_t at) {
    ssize_t done;
    if (!is_ours())
        return -1;
    do
        done = pwrite(file.fd, data, size, (off_t)at);
    while (done < 0 && errno == EINTR);
    return done == (ssize_t)size ? 0 : -1;
}

/* A chunk of the file in memory, its pages present; NULL if that cannot be. */
uint64_t *file_map(uint64_t at) {
    int flags = MAP_SHARED;
#ifdef MAP_POPULATE
    flags |= MAP_POPULATE;
#endif
    uint64_t *chunk = mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, flags, file.fd, (off_t)at);
    return chunk == MAP_FAILED ? NULL : chunk;
}

/* The word of the file at this place, or NULL. */
uint64_t *file_word(uint64_t at) {
    if (!file.window || at < file.window_at || at >= file.window_at + WINDOW) {
        if (file.window)
            munmap(file.window, WINDOW);
        file.window_at = at & ~(uint64_t)(WINDOW - 1);
        file.window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, (off_t)file.window_at);
        if (file.window == MAP_FAILED) {
            file.window = NULL;
            return NULL;
        }
    }
    return (uint64_t *)(file.window + (at - file.window_at));
}

/* Ask for room behind the end, once for many chunks: that is cheaper than to find some for each when it is written.  The
 * file looks no longer for it.  A file system in memory has nothing to find, and one that cannot is not asked again. */
static void reserve(void) {
    file.reserved = UINT64_MAX;
#if defined(FALLOC_FL_KEEP_SIZE)
    struct statfs system;
    uint64_t size = file.end - file.begin, left = file.limit - file.end;
    size = size < CHUNK_BYTES ? CHUNK_BYTES : size > MOST_RESERVED ? MOST_RESERVED : size;
    if (size > left)
        size = left;
    if (fstatfs(file.fd, &system) || system.f_type == TMPFS_MAGIC)
        return;
    if (!fallocate(file.fd, FALLOC_FL_KEEP_SIZE, (off_t)file.end, (off_t)size) || errno != EOPNOTSUPP)
        file.reserved = file.end + size;
#endif
}

/* Write a hidden chunk behind the end, or over the oldest one of the ring.  Where it lies, 0 for no room. */
uint64_t file_place(const uint64_t *chunk, int may_overwrite) {
    uint64_t hidden = filler(PAGE_WORDS), at = file.end;
    int full = file.ring_count == file.ring_room || at + CHUNK_BYTES > file.limit;
    int again = may_overwrite && file.ring_count && full;
    if (!is_ours())
        return 0;
    if (again) {
        at = file.ring[file.ring_next++ % file.ring_count];
        uint64_t *word = file_word(at);
        if (!word)
            return 0;
        show(word, 0);
    } else if (at + CHUNK_BYTES > file.limit)
        return 0;
    if (!again && at + CHUNK_BYTES > file.reserved)
        reserve();
    struct iovec pieces[2] = {{&hidden, 8}, {(void *)(chunk + 1), CHUNK_BYTES - 8}};
    ssize_t done;
    do
        done = pwritev(file.fd, pieces, 2, (off_t)at);
    while (done < 0 && errno == EINTR);
    if (done != CHUNK_BYTES) {
        if (!again && done > 0 && ftruncate(file.fd, (off_t)at)) { /* whole pages are valid, and what is cut is seen */
        }
        return 0;
    }
    if (!again)
        file.end += CHUNK_BYTES;
    if (!again && may_overwrite && file.ring_room)
        file.ring[file.ring_count++] = at;
    return at;
}
