/* The file of the recording: where its chunks are, and how they get there. */
#define _GNU_SOURCE
#include "file.h"

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

enum { WINDOW_BYTES = 1 << 22, MAX_RESERVED = 1 << 22 };

/* Offsets and sizes are in bytes. */
static struct {
    int fd;
    dev_t device;           /* which file that is: the program may close our descriptor and open another file as it */
    ino_t inode;
    uint64_t begin;         /* of the first chunk */
    uint64_t end;           /* of the file */
    uint64_t reserved;      /* up to where the file system has been asked for room; UINT64_MAX: it is not asked again */
    uint64_t limit;         /* the file does not grow beyond */
    uint64_t live_bytes;    /* of all live chunks */
    char *window;           /* a mapped part of the file, for the first words of chunks */
    uint64_t window_offset;
    uint64_t *ring;         /* offsets of chunks that may be overwritten */
    uint64_t ring_capacity, ring_count, ring_next;
} file;

/* Return whether the descriptor still is our file. */
static int is_ours(void) {
    struct stat status;
    return !fstat(file.fd, &status) && status.st_dev == file.device && status.st_ino == file.inode;
}

/* Take over an open file that ends at `end`.  With a `ring`, full chunks of this many bytes are kept and then
 * overwritten.  Returns -1 with errno set on failure. */
int file_start(int fd, uint64_t end, uint64_t limit, uint64_t ring) {
    struct stat status;
    memset(&file, 0, sizeof file);
    if (fstat(fd, &status))
        return -1;
    file.fd = fd;
    file.device = status.st_dev;
    file.inode = status.st_ino;
    file.begin = file.end = end;
    file.limit = limit ? limit : UINT64_MAX;
    file.ring_capacity = (ring + CHUNK_BYTES - 1) / CHUNK_BYTES;
    file.ring = calloc(file.ring_capacity + 1, sizeof(uint64_t));
    return file.ring ? 0 : -1;
}

/* Give back the room that was reserved and not used.  If that fails, the file merely occupies more of the disk. */
static void release_reserved(void) {
    int reserved = file.reserved != UINT64_MAX && file.reserved > file.end;
    if (reserved && is_ours() && ftruncate(file.fd, (off_t)file.end)) {
    }
}

/* Release everything but the descriptor, which belongs to the caller. */
void file_stop(void) {
    release_reserved();
    if (file.window)
        munmap(file.window, WINDOW_BYTES);
    free(file.ring);
    memset(&file, 0, sizeof file);
}

/* Make sure that the child of a fork never truncates the file of its parent. */
void file_in_child(void) {
    file.reserved = UINT64_MAX;
}

/* Return the size of the file. */
uint64_t file_end(void) {
    return file.end;
}

/* Return the descriptor, or -1 if it no longer is our file. */
int file_descriptor(void) {
    return is_ours() ? file.fd : -1;
}

/* Write bytes.  Returns -1 if not all could be written. */
int file_write(const void *data, size_t size, uint64_t offset) {
    ssize_t written;
    if (!is_ours())
        return -1;
    do
        written = pwrite(file.fd, data, size, (off_t)offset);
    while (written < 0 && errno == EINTR);
    return written == (ssize_t)size ? 0 : -1;
}

/* Map a chunk of the file into memory, its pages present.  Returns NULL on failure. */
uint64_t *file_map(uint64_t offset) {
    int flags = MAP_SHARED;
#ifdef MAP_POPULATE
    flags |= MAP_POPULATE;
#endif
    uint64_t *chunk = mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, flags, file.fd, (off_t)offset);
    return chunk == MAP_FAILED ? NULL : chunk;
}

/* Return the mapped word at an offset, valid until the next call.  Returns NULL on failure. */
uint64_t *file_word(uint64_t offset) {
    if (!file.window || offset < file.window_offset || offset >= file.window_offset + WINDOW_BYTES) {
        if (file.window)
            munmap(file.window, WINDOW_BYTES);
        file.window_offset = offset & ~(uint64_t)(WINDOW_BYTES - 1);
        file.window = mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, (off_t)file.window_offset);
        if (file.window == MAP_FAILED) {
            file.window = NULL;
            return NULL;
        }
    }
    return (uint64_t *)(file.window + (offset - file.window_offset));
}

/* Ask the file system for room after the end, for many chunks at once: that is cheaper than to allocate blocks for
 * each chunk when it is written.  The size of the file does not change.  A file system in memory has no blocks to
 * find, and one that does not support this is not asked again. */
static void reserve(void) {
    file.reserved = UINT64_MAX;
#if defined(FALLOC_FL_KEEP_SIZE)
    struct statfs system;
    uint64_t size = file.end - file.begin, left = file.limit - file.end;
    size = size < CHUNK_BYTES ? CHUNK_BYTES : size > MAX_RESERVED ? MAX_RESERVED : size;
    if (size > left)
        size = left;
    if (fstatfs(file.fd, &system) || system.f_type == TMPFS_MAGIC)
        return;
    if (!fallocate(file.fd, FALLOC_FL_KEEP_SIZE, (off_t)file.end, (off_t)size) || errno != EOPNOTSUPP)
        file.reserved = file.end + size;
#endif
}

/* Return a number of pages, rounded up so that what follows can be mapped into memory. */
static unsigned mappable_pages(unsigned pages) {
    unsigned unit = (unsigned)(sysconf(_SC_PAGESIZE) / PAGE_BYTES);
    return unit > 1 ? (pages + unit - 1) / unit * unit : pages;
}

/* Write pages, hidden.  The last word of the last page does not step over the word after it.  Returns -1 if there is
 * no room. */
static int write_hidden(const uint64_t *chunk, size_t size, uint64_t offset) {
    uint64_t hidden = filler(PAGE_WORDS), last = filler(1);
    struct iovec parts[3] = {{&hidden, 8}, {(void *)(chunk + 1), size - 16}, {&last, 8}};
    ssize_t written;
    do
        written = pwritev(file.fd, parts, 3, (off_t)offset);
    while (written < 0 && errno == EINTR);
    if (written == (ssize_t)size)
        return 0;
    /* If the file cannot be cut either, readers still find whole pages, and see that the last one is cut. */
    if (offset == file.end && written > 0 && ftruncate(file.fd, (off_t)offset)) {
    }
    return -1;
}

/* Hide the oldest chunk of the ring, which will be overwritten.  Returns its offset, or 0 on failure. */
static uint64_t hide_oldest(void) {
    uint64_t offset = file.ring[file.ring_next++ % file.ring_count], *first_word = file_word(offset);
    if (!first_word)
        return 0;
    chunk_show(first_word, 0);
    return offset;
}

/* Return whether full chunks overwrite old ones. */
int file_is_ring(void) {
    return file.ring_capacity != 0;
}

/* Return how many full chunks the ring has room for. */
uint64_t file_ring_chunks(void) {
    return file.ring_capacity;
}

/* Write the first pages of a chunk, hidden, after the end of the file or over the oldest one of the ring.  Returns
 * their offset, or 0 if there is no room.
 *
 * As long as there is no ring, room is kept for the last copies of all live chunks. */
uint64_t file_append(const uint64_t *chunk, unsigned pages, enum ChunkRole role) {
    uint64_t size = (uint64_t)mappable_pages(pages) * PAGE_BYTES, offset = file.end;
    uint64_t kept = role == FULL_CHUNK && !file.ring_capacity ? file.live_bytes : 0;
    int is_full = offset + size + kept > file.limit;
    if (!is_ours())
        return 0;
    if (role == FULL_CHUNK && file.ring_count && (is_full || file.ring_count == file.ring_capacity)) {
        offset = hide_oldest();
        return offset && !write_hidden(chunk, size, offset) ? offset : 0;
    }
    if (is_full)
        return 0;
    if (offset + size > file.reserved)
        reserve();
    if (write_hidden(chunk, size, offset))
        return 0;
    file.end += size;
    if (role == LIVE_CHUNK)
        file.live_bytes += CHUNK_BYTES;
    else if (role == FULL_CHUNK && file.ring_capacity)
        file.ring[file.ring_count++] = offset;
    return offset;
}

/* ---- How records and filler lie in a chunk. ---- */

/* Empty all pages of a chunk.  The first word of the chunk, which shows or hides it, stays as it is. */
void chunk_clear(uint64_t *chunk) {
    for (int page = 0; page < CHUNK_PAGES; page++) {
        uint64_t *words = chunk + page * PAGE_WORDS;
        words[1] = filler(PAGE_WORDS - 2);
        words[PAGE_WORDS - 1] = filler(page + 1 < CHUNK_PAGES ? 2 : 1);
        if (page)
            words[0] = filler(PAGE_WORDS);
    }
}

/* Return how many pages of a chunk, from the first one on, have records or are before one that has. */
unsigned chunk_used_pages(const uint64_t *chunk) {
    unsigned pages = CHUNK_PAGES;
    while (pages && chunk[(pages - 1) * PAGE_WORDS + 1] == filler(PAGE_WORDS - 2))
        pages--;
    return pages;
}
