/* base: what every folder stands on: error values, bounded buffers, arenas, checked arithmetic.
 *
 * Errors are values. A function that can fail returns rp_code (RP_OK is 0) and takes an `rp_error *err` as its last
 * parameter; on failure it fills err with the code and one message for a person: the file, the field, what was found,
 * what was expected, what to do. err may be NULL when the caller only needs the code. On failure out-parameters are left
 * untouched unless a header says otherwise. Nothing in common/ prints or exits.
 */
#ifndef RP_BASE_H
#define RP_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define RP_PRINTF(fmt, args)
#endif

/* The one table of outcomes: C name, exit status, short name (as in --json), meaning (as in reploid-exit.7).
 * Numbers are part of the interface: scripts test them. Never renumber; add at the end of a group. */
#define RP_CODES(X)                                                                                                              \
	X(OK, 0, "ok", "success")                                                                                                    \
	X(FAIL, 1, "failed", "the work was done and the answer is no: a check failed, something differs")                            \
	X(USAGE, 2, "usage", "the command line or an environment twin is wrong")                                                     \
	X(NOT_FOUND, 3, "not-found", "a file, folder or model id does not exist")                                                    \
	X(READ, 4, "read", "an input exists but cannot be read")                                                                     \
	X(WRITE, 5, "write", "an output cannot be written")                                                                          \
	X(DISK_FULL, 6, "disk-full", "no space is left for an output")                                                               \
	X(FORMAT, 10, "format", "a file is malformed: truncated, overlapping, not UTF-8, out of range")                              \
	X(UNSUPPORTED, 11, "unsupported", "a well-formed file needs something this build does not have")                             \
	X(MODEL, 12, "model", "a model is incomplete or contradicts itself: missing tensor, wrong shape")                            \
	X(TEMPLATE, 13, "template", "the chat template is absent or unknown and none was named")                                     \
	X(PROMPT, 14, "prompt", "the prompt is empty, not UTF-8, or has an id outside the vocabulary")                               \
	X(CONTEXT, 15, "context", "the prompt does not fit the context")                                                             \
	X(HASH, 20, "hash", "bytes do not match their hash")                                                                         \
	X(SIGNATURE, 21, "signature", "a signature or signed record does not verify")                                                \
	X(NETWORK, 30, "network", "a host cannot be reached or breaks the protocol")                                                 \
	X(AUTH, 31, "auth", "a server refuses the credentials, or wants some")                                                       \
	X(CHANGED, 32, "changed", "a remote file is not the one that was started")                                                   \
	X(RANGE, 33, "range", "a server refuses a byte range")                                                                       \
	X(OFFLINE, 34, "offline", "the network is needed and --offline forbids it")                                                  \
	X(NO_DEVICE, 40, "no-device", "no usable Vulkan driver or device")                                                           \
	X(NO_MEMORY, 41, "no-memory", "too little memory on the host or the device")                                                 \
	X(DEVICE_LOST, 42, "device-lost", "the GPU stopped answering")                                                               \
	X(STALE_PLAN, 43, "stale-plan", "a plan does not fit this model, device or build")                                           \
	X(DRIVER, 44, "driver", "a Vulkan driver is there and reports an error")                                                     \
	X(PEER, 50, "peer", "a peer was lost or broke the protocol")                                                                 \
	X(INTERNAL, 70, "internal", "a defect in this program")                                                                      \
	X(CANCELLED, 130, "cancelled", "stopped by the user (SIGINT) or by SIGTERM")

typedef enum rp_code {
#define X(name, number, word, text) RP_##name = number,
	RP_CODES(X)
#undef X
} rp_code;

typedef struct rp_error {
	rp_code code;
	char msg[1000]; /* no trailing newline, no program name; control bytes are shown escaped */
} rp_error;

typedef struct rp_code_info {
	rp_code code;
	const char *word, *text;
} rp_code_info;

/* All codes in the order of the table; *n gets their count. */
const rp_code_info *rp_codes(size_t *n);
const char *rp_code_word(rp_code code); /* "unknown" for a number not in the table */

/* Fill *err (unless NULL) and return code, so that `return rp_fail(err, RP_FORMAT, ...)` reads as one thing. */
rp_code rp_fail(rp_error *err, rp_code code, const char *fmt, ...) RP_PRINTF(3, 4);
rp_code rp_vfail(rp_error *err, rp_code code, const char *fmt, va_list ap) RP_PRINTF(3, 0);
/* As rp_fail with ": " and the text of errno value errnum appended. ENOSPC and EDQUOT become RP_DISK_FULL,
 * ENOENT becomes RP_NOT_FOUND, ENOMEM RP_NO_MEMORY; other values keep code. */
rp_code rp_fail_errno(rp_error *err, rp_code code, int errnum, const char *fmt, ...) RP_PRINTF(4, 5);
/* Put a prefix ("blk.3.attn_q.weight: ") before the message already in err; returns err's code. err may be NULL. */
rp_code rp_error_prefix(rp_error *err, rp_code code, const char *fmt, ...) RP_PRINTF(3, 4);

/* ---- checked arithmetic: false on overflow, *out untouched then ---- */
static inline bool rp_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
	if (a > UINT64_MAX - b)
		return false;
	*out = a + b;
	return true;
}

static inline bool rp_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
	if (b != 0 && a > UINT64_MAX / b)
		return false;
	*out = a * b;
	return true;
}

static inline bool rp_u64_to_size(uint64_t a, size_t *out)
{
	if (a > SIZE_MAX / 2)
		return false;
	*out = (size_t)a;
	return true;
}

/* Round a up to a multiple of unit (unit > 0). */
static inline bool rp_round_up_u64(uint64_t a, uint64_t unit, uint64_t *out)
{
	uint64_t rest = a % unit;
	return rest == 0 ? (*out = a, true) : rp_add_u64(a, unit - rest, out);
}

/* ---- memory: NULL on overflow or when memory is short; freed by free() ---- */
void *rp_alloc(size_t size);                  /* zeroed; a size of 0 gives a unique pointer */
void *rp_alloc_array(size_t n, size_t size);  /* zeroed, n * size checked */
void *rp_grow_array(void *p, size_t n, size_t size); /* realloc with n * size checked; new bytes are not zeroed */
char *rp_strdup(const char *s);
char *rp_strndup(const char *s, size_t n);
char *rp_asprintf(const char *fmt, ...) RP_PRINTF(1, 2);
rp_code rp_no_memory(rp_error *err, uint64_t bytes, const char *what_for); /* the one message for it */
/* Bytes of memory this process may still take (UINT64_MAX when the system does not say). */
uint64_t rp_host_bytes_free(void);

/* What a static analyser cannot see from here: these never give RP_OK. */
#if defined(__clang_analyzer__) && !defined(RP_BASE_IMPLEMENTATION)
#define rp_fail(err, code, ...) (rp_fail(err, code, __VA_ARGS__), (code))
#define rp_fail_errno(err, code, ...) (rp_fail_errno(err, code, __VA_ARGS__), (code))
#define rp_error_prefix(err, code, ...) (rp_error_prefix(err, code, __VA_ARGS__), (code))
#define rp_no_memory(err, bytes, what_for) (rp_no_memory(err, bytes, what_for), RP_NO_MEMORY)
#endif

/* ---- bounded buffer: grows up to max bytes, never past; data is kept NUL-terminated (the NUL is not counted) ---- */
typedef struct rp_buf {
	char *data; /* NULL while empty and never written */
	size_t len, cap, max;
	bool failed; /* an append did not fit or memory ran out; sticky, so callers may check once at the end */
} rp_buf;

void rp_buf_init(rp_buf *b, size_t max); /* max 0: no limit but memory */
void rp_buf_free(rp_buf *b);
void rp_buf_clear(rp_buf *b); /* keeps the memory, clears failed */
bool rp_buf_reserve(rp_buf *b, size_t more);
bool rp_buf_add(rp_buf *b, const void *bytes, size_t n);
bool rp_buf_adds(rp_buf *b, const char *s);
bool rp_buf_addc(rp_buf *b, char c);
bool rp_buf_addf(rp_buf *b, const char *fmt, ...) RP_PRINTF(2, 3);
/* Remove the first n bytes (n <= len). */
void rp_buf_drop(rp_buf *b, size_t n);
/* Hand the bytes over (free() them); the buffer is empty again. NULL when failed or empty. */
char *rp_buf_take(rp_buf *b, size_t *len);

/* ---- arena: many small things freed together ---- */
typedef struct rp_arena {
	struct rp_arena_block *head;
	size_t used, max; /* max 0: no limit but memory */
} rp_arena;

void rp_arena_init(rp_arena *a, size_t max);
void *rp_arena_alloc(rp_arena *a, size_t size);           /* zeroed, aligned for any type; NULL when it does not fit */
void *rp_arena_array(rp_arena *a, size_t n, size_t size); /* n * size checked */
char *rp_arena_strndup(rp_arena *a, const char *s, size_t n);
char *rp_arena_printf(rp_arena *a, const char *fmt, ...) RP_PRINTF(2, 3);
void rp_arena_free(rp_arena *a);

/* ---- little-endian reads from unaligned bytes ---- */
static inline uint16_t rp_le16(const void *p)
{
	const unsigned char *b = p;
	return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t rp_le32(const void *p)
{
	const unsigned char *b = p;
	return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t rp_le64(const void *p)
{
	const unsigned char *b = p;
	return (uint64_t)rp_le32(b) | (uint64_t)rp_le32(b + 4) << 32;
}

/* ---- text ---- */
/* Length of the longest prefix of s[0..n) that is well-formed UTF-8 (Unicode table 3-7). Equal to n when all of it is. */
size_t rp_utf8_valid(const char *s, size_t n);
/* Copy s[0..n) for showing in a message: control bytes and invalid UTF-8 as \xNN, cut with "..." to fit size. Returns out. */
char *rp_show(char *out, size_t size, const char *s, size_t n);

/* ---- files ---- */
/* Read a whole regular file of at most max bytes; *data is NUL-terminated and free()d by the caller. */
rp_code rp_read_file(const char *path, size_t max, char **data, size_t *len, rp_error *err);
/* Write path atomically: temporary file in the same folder, fsync, rename, fsync of the folder. mode as in open(2). */
rp_code rp_write_file(const char *path, const void *data, size_t len, unsigned mode, rp_error *err);
/* Write all of it to a descriptor; EINTR and short writes are handled. */
rp_code rp_write_fd(int fd, const void *data, size_t len, const char *name, rp_error *err);

uint64_t rp_now_ns(void); /* monotonic */

#endif
