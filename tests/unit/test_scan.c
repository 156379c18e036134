/* The scan against hashes computed one at a time. */
#include "hash/scan.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { BLOCK = 256 * 1024 };

static char folder[] = "/tmp/test_scan.XXXXXX";

static unsigned char *noise(size_t n, uint64_t seed)
{
	unsigned char *p = malloc(n + 1);
	assert_non_null(p);
	for (size_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		p[i] = (unsigned char)(seed >> 56);
	}
	return p;
}

static char *put(const char *name, const void *data, size_t n)
{
	char *path = rp_asprintf("%s/%s", folder, name);
	rp_error err;
	assert_int_equal(rp_write_file(path, data, n, 0600, &err), RP_OK);
	return path;
}

static void check_file(const rp_scan_file *f, const unsigned char *data, size_t n)
{
	unsigned char sum[RP_HASH_BYTES];
	assert_int_equal(f->code, RP_OK);
	assert_int_equal(f->size, n);
	if (f->sha256) {
		rp_sha256_once(data, n, sum);
		assert_memory_equal(f->sha256_sum, sum, sizeof sum);
	}
	if (f->blake3) {
		rp_blake3_once(data, n, sum);
		assert_memory_equal(f->blake3_sum, sum, sizeof sum);
	}
	for (size_t t = 0; t < RP_SCAN_TRACKS; t++)
		for (size_t i = 0; i < f->tracks[t].n; i++) {
			const rp_scan_range *r = &f->tracks[t].v[i];
			assert_int_equal(r->done, r->offset + r->size <= n);
			if (!r->done)
				continue;
			rp_sha256_once(data + r->offset, (size_t)r->size, sum);
			assert_memory_equal(r->sha256, sum, sizeof sum);
		}
}

/* Ranges of about `size` bytes from `start` on, some with gaps between them. */
static rp_scan_track cut(uint64_t start, uint64_t size, uint64_t gap, uint64_t end)
{
	rp_scan_track t = {calloc((size_t)((end - start) / size + 2), sizeof *t.v), 0};
	assert_non_null(t.v);
	for (uint64_t at = start; at < end; at += size + gap, t.n++)
		t.v[t.n] = (rp_scan_range){.offset = at, .size = size};
	return t;
}

static const size_t sizes[] = {0, 1, 1023, 1024, 1025, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1, 5 * BLOCK + 12345,
	8 * BLOCK};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* Every size at once, with both tracks, on several numbers of threads. */
static void all_hashes(void **state)
{
	(void)state;
	unsigned char *data[N_SIZES];
	char *paths[N_SIZES];
	for (size_t i = 0; i < N_SIZES; i++) {
		char name[32];
		snprintf(name, sizeof name, "f%zu", i);
		data[i] = noise(sizes[i], i);
		paths[i] = put(name, data[i], sizes[i]);
	}
	for (unsigned threads = 1; threads <= 5; threads += 2) {
		rp_scan_file files[N_SIZES] = {{0}};
		for (size_t i = 0; i < N_SIZES; i++) {
			files[i] = (rp_scan_file){.path = paths[i], .sha256 = i % 4 != 1, .blake3 = i % 4 != 2};
			if (sizes[i] > 0) {
				files[i].tracks[0] = cut(0, 1500000, 0, sizes[i]);
				files[i].tracks[1] = cut(sizes[i] / 3, threads == 3 ? 4096 : 300001, 7, sizes[i]);
			}
		}
		rp_error err;
		rp_scan scan = {.files = files, .n_files = N_SIZES, .threads = threads};
		assert_int_equal(rp_scan_run(&scan, &err), RP_OK);
		for (size_t i = 0; i < N_SIZES; i++) {
			check_file(&files[i], data[i], sizes[i]);
			assert_true(files[i].steady);
			free(files[i].tracks[0].v);
			free(files[i].tracks[1].v);
		}
	}
	for (size_t i = 0; i < N_SIZES; i++) {
		free(data[i]);
		free(paths[i]);
	}
}

/* More blocks than a file is read ahead of its BLAKE3: mostly a hole, with a mark in each block so that none can take another's place. */
static void many_blocks(void **state)
{
	(void)state;
	enum { BLOCKS = 300, SIZE = BLOCKS * BLOCK + 777 };
	unsigned char *data = calloc(1, SIZE);
	char *path = rp_asprintf("%s/blocks", folder);
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_non_null(data);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	for (size_t i = 0; i < BLOCKS; i++) {
		memcpy(data + i * BLOCK + i, &i, sizeof i);
		assert_int_equal(pwrite(fd, &i, sizeof i, (off_t)(i * BLOCK + i)), sizeof i);
	}
	close(fd);
	for (unsigned threads = 1; threads <= 7; threads += 3) {
		rp_scan_file f = {.path = path, .blake3 = true};
		rp_scan scan = {.files = &f, .n_files = 1, .threads = threads};
		rp_error err;
		assert_int_equal(rp_scan_run(&scan, &err), RP_OK);
		check_file(&f, data, SIZE);
	}
	unlink(path);
	free(path);
	free(data);
}

typedef struct feed {
	int fd;
	const unsigned char *data;
	size_t n;
} feed;

static void *feed_pipe(void *argument)
{
	feed *f = argument;
	for (size_t at = 0, step = 1; at < f->n; step = step * 3 % 200003 + 1) {
		ssize_t k = write(f->fd, f->data + at, step < f->n - at ? step : f->n - at);
		if (k <= 0)
			break;
		at += (size_t)k;
	}
	close(f->fd);
	return NULL;
}

static void pipes(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_SIZES; i++) {
		unsigned char *data = noise(sizes[i], i + 100);
		int ends[2], before = dup(STDIN_FILENO);
		pthread_t writer;
		assert_int_equal(pipe(ends), 0);
		dup2(ends[0], STDIN_FILENO);
		close(ends[0]);
		feed f = {ends[1], data, sizes[i]};
		assert_int_equal(pthread_create(&writer, NULL, feed_pipe, &f), 0);
		rp_scan_track pieces = cut(0, 700001, 0, sizes[i] + 1);
		/* the second time it is at its end */
		rp_scan_file files[2] = {{.path = "-", .standard_input = true, .sha256 = true, .blake3 = true, .tracks = {pieces}},
			{.path = "-", .standard_input = true, .sha256 = true}};
		rp_scan scan = {.files = files, .n_files = 2, .threads = 3};
		rp_error err;
		assert_int_equal(rp_scan_run(&scan, &err), RP_OK);
		pthread_join(writer, NULL);
		check_file(&files[0], data, sizes[i]);
		check_file(&files[1], data, 0);
		assert_false(files[0].steady);
		dup2(before, STDIN_FILENO);
		close(before);
		free(pieces.v);
		free(data);
	}
}

static rp_code note(void *context, size_t i, rp_error *err)
{
	(void)err;
	size_t *next = context;
	assert_int_equal(i, *next);
	++*next;
	return RP_OK;
}

/* Files that cannot be read stand among those that can. */
static void failures(void **state)
{
	(void)state;
	unsigned char *data = noise(BLOCK * 3, 5);
	char *good = put("good", data, BLOCK * 3);
	rp_scan_range beyond = {.offset = BLOCK * 2, .size = BLOCK * 2};
	rp_scan_file files[] = {{.path = good, .sha256 = true}, {.path = "/nonexistent/x", .sha256 = true}, {.path = folder, .blake3 = true},
		{.path = good, .blake3 = true, .tracks = {{&beyond, 1}}}};
	size_t told = 0;
	rp_scan scan = {.files = files, .n_files = 4, .finished = note, .context = &told};
	rp_error err;
	assert_int_equal(rp_scan_run(&scan, &err), RP_OK);
	assert_int_equal(told, 4);
	check_file(&files[0], data, BLOCK * 3);
	assert_int_equal(files[1].code, RP_NOT_FOUND);
	assert_int_equal(rp_scan_error(&files[1], &err), RP_NOT_FOUND);
	assert_non_null(strstr(err.msg, "/nonexistent/x: cannot read: No such file"));
	assert_int_equal(files[2].code, RP_READ);
	check_file(&files[3], data, BLOCK * 3);
	assert_false(beyond.done);
	free(good);
	free(data);
}

/* ---- a file that is cut short while it is read: the linker leads pread here ---- */
ssize_t __real_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at);

static atomic_bool cutting; /* the read that goes past cut_to finds the file cut there */
static size_t cut_to;

ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at)
{
	char path[80], name[80] = "";
	if (atomic_load(&cutting) && n > 1 && (size_t)at <= cut_to && cut_to < (size_t)at + n) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		if (readlink(path, name, sizeof name - 1) > 4 && strcmp(name + strlen(name) - 4, "/cut") == 0 && truncate(name, (off_t)cut_to) == 0)
			atomic_store(&cutting, false);
	}
	return __real_pread64(fd, to, n, at);
}

/* Whatever is wanted of it and wherever it is cut, the change is told, and other files are good. */
static void cut_short(void **state)
{
	(void)state;
	enum { SIZE = 9 * BLOCK + 77 };
	static const size_t cuts[] = {0, 1, BLOCK, 4 * BLOCK + 5, 9 * BLOCK, SIZE - 1};
	unsigned char *data = noise(SIZE, 8);
	char *other = put("other", data, SIZE);
	for (size_t i = 0; i < 6 * sizeof cuts / sizeof *cuts; i++) {
		char *path = put("cut", data, SIZE);
		rp_scan_track pieces = cut(0, 700001, 0, SIZE);
		rp_scan_file files[] = {{.path = path, .sha256 = i % 3 != 1, .blake3 = i % 3 != 0, .tracks = {pieces}}, {.path = other, .blake3 = true}};
		rp_scan scan = {.files = files, .n_files = 2, .threads = 1 + (unsigned)i % 2 * 3};
		rp_error err;
		cut_to = cuts[i / 6];
		atomic_store(&cutting, true);
		assert_int_equal(rp_scan_run(&scan, &err), RP_OK);
		assert_false(atomic_load(&cutting));
		assert_int_equal(files[0].code, RP_CHANGED);
		assert_int_equal(rp_scan_error(&files[0], &err), RP_CHANGED);
		assert_non_null(strstr(err.msg, "/cut: became shorter while it was read"));
		assert_false(files[0].steady);
		check_file(&files[1], data, SIZE);
		free(pieces.v);
		free(path);
	}
	free(other);
	free(data);
}

/* Files of /sys claim a page and hold a line: what they hold counts. */
static void claims_more(void **state)
{
	(void)state;
	static const char path[] = "/sys/kernel/mm/transparent_hugepage/enabled";
	char text[4096];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : -1;
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		skip();
	rp_scan_file f = {.path = path, .sha256 = true, .blake3 = true};
	rp_scan scan = {.files = &f, .n_files = 1};
	rp_error err;
	assert_int_equal(rp_scan_run(&scan, &err), RP_OK);
	check_file(&f, (const unsigned char *)text, (size_t)n);
}

static rp_code refuse(void *context, size_t i, rp_error *err)
{
	(void)context;
	return i == 1 ? rp_fail(err, RP_WRITE, "no more") : RP_OK;
}

static void stops(void **state)
{
	(void)state;
	unsigned char *data = noise(BLOCK * 7, 6);
	char *path = put("long", data, BLOCK * 7);
	rp_scan_file files[40];
	for (size_t i = 0; i < 40; i++)
		files[i] = (rp_scan_file){.path = path, .sha256 = true, .blake3 = true};
	atomic_bool cancel = true;
	rp_scan scan = {.files = files, .n_files = 40, .threads = 4, .finished = refuse};
	rp_error err;
	assert_int_equal(rp_scan_run(&scan, &err), RP_WRITE);
	scan = (rp_scan){.files = files, .n_files = 40, .threads = 4, .cancel = &cancel};
	assert_int_equal(rp_scan_run(&scan, &err), RP_CANCELLED);
	free(path);
	free(data);
}

/* Roots of 0 to 5 leaves, by hand. */
static void merkle(void **state)
{
	(void)state;
	unsigned char leaf[5][RP_HASH_BYTES], work[5][RP_HASH_BYTES], out[RP_HASH_BYTES], pair[64], a[3][RP_HASH_BYTES], b[2][RP_HASH_BYTES];
	for (size_t i = 0; i < 5; i++)
		rp_sha256_once(&i, 1, leaf[i]);
	rp_merkle_root(work, 0, out);
	char hex[RP_HASH_HEX];
	assert_string_equal(rp_hex(hex, out, sizeof out), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	memcpy(work, leaf, sizeof leaf);
	rp_merkle_root(work, 1, out);
	assert_memory_equal(out, leaf[0], sizeof out);
#define JOIN(l, r, to) (memcpy(pair, l, 32), memcpy(pair + 32, r, 32), rp_sha256_once(pair, 64, to))
	JOIN(leaf[0], leaf[1], a[0]);
	JOIN(leaf[2], leaf[3], a[1]);
	JOIN(leaf[4], leaf[4], a[2]);
	JOIN(a[0], a[1], b[0]);
	JOIN(a[2], a[2], b[1]);
	JOIN(b[0], b[1], a[0]);
	memcpy(work, leaf, sizeof leaf);
	rp_merkle_root(work, 5, out);
	assert_memory_equal(out, a[0], sizeof out);
	memcpy(work, leaf, sizeof leaf);
	rp_merkle_root(work, 4, out);
	assert_memory_equal(out, b[0], sizeof out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_hashes),
		cmocka_unit_test(many_blocks),
		cmocka_unit_test(pipes),
		cmocka_unit_test(failures),
		cmocka_unit_test(cut_short),
		cmocka_unit_test(claims_more),
		cmocka_unit_test(stops),
		cmocka_unit_test(merkle),
	};
	if (mkdtemp(folder) == NULL)
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	char command[64];
	snprintf(command, sizeof command, "rm -r %s", folder);
	return system(command) != 0 || failed;
}
