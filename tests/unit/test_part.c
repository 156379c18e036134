/* Partial files, journals, folders that must not be left, targets, lists of ranges and pieces. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/fetch.h"
#include "store/folder.h"
#include "store/part.h"
#include "store/target.h"

enum { PIECE = 1000, PIECES = 3, SIZE = 2500 };

typedef struct place {
	char path[64];
	int fd;
} place;

static int make_place(void **state)
{
	place *p = calloc(1, sizeof *p);
	strcpy(p->path, "/tmp/test_part.XXXXXX");
	if (mkdtemp(p->path) == NULL)
		return -1;
	p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = p;
	return p->fd < 0;
}

static int remove_place(void **state)
{
	place *p = *state;
	char command[100];
	close(p->fd);
	snprintf(command, sizeof command, "rm -r %s", p->path);
	int rc = system(command);
	free(p);
	return rc;
}

static rp_part opened(const place *p, const char *key)
{
	rp_part part;
	rp_error err;
	if (rp_part_open(&part, p->fd, p->path, "f.bin", key, strlen(key), SIZE, PIECES, &err) != RP_OK)
		fail_msg("%s", err.msg);
	return part;
}

static void write_piece(rp_part *part, size_t i)
{
	unsigned char data[PIECE], hash[RP_HASH_BYTES];
	size_t n = i == PIECES - 1 ? SIZE - i * PIECE : PIECE;
	memset(data, (int)('a' + i), sizeof data);
	rp_sha256_once(data, n, hash);
	assert_int_equal(rp_part_write(part, i, i * PIECE, data, n, 0, hash, NULL), RP_OK);
}

static size_t entries(const place *p)
{
	char command[100];
	size_t n = 0;
	snprintf(command, sizeof command, "ls -A %s | wc -l", p->path);
	FILE *f = popen(command, "r");
	assert_int_equal(fscanf(f, "%zu", &n), 1);
	pclose(f);
	return n;
}

static void test_goes_on(void **state)
{
	const place *p = *state;
	unsigned char hash[RP_HASH_BYTES];
	rp_part part = opened(p, "k");
	assert_int_equal(rp_part_lookup(&part, 0, hash), RP_RECORD_NONE);
	write_piece(&part, 1);
	assert_int_equal(rp_part_lookup(&part, 1, hash), RP_RECORD_SURE);
	rp_part_close(&part); /* as if killed: nothing else happens at an end */
	part = opened(p, "k");
	assert_int_equal(rp_part_lookup(&part, 0, hash), RP_RECORD_NONE);
	assert_int_equal(rp_part_lookup(&part, 1, hash), RP_RECORD_SURE);
	rp_part other = opened(p, "another content");
	assert_int_equal(rp_part_lookup(&other, 1, hash), RP_RECORD_NONE);
	rp_part_discard(&other);
	rp_part_close(&other);
	write_piece(&part, 0);
	write_piece(&part, 2);
	assert_int_equal(rp_part_publish(&part, NULL), RP_OK);
	rp_part_close(&part);
	char *path = rp_asprintf("%s/f.bin", p->path), *data;
	size_t n;
	assert_int_equal(rp_read_file(path, 10000, &data, &n, NULL), RP_OK);
	assert_int_equal(n, SIZE);
	assert_true(data[0] == 'a' && data[PIECE] == 'b' && data[SIZE - 1] == 'c');
	free(data);
	free(path);
	assert_int_equal(entries(p), 1);
}

/* A journal that does not belong to these bytes counts for nothing by itself. */
static void test_foreign_journal(void **state)
{
	const place *p = *state;
	unsigned char hash[RP_HASH_BYTES];
	char command[300];
	rp_part part = opened(p, "k");
	write_piece(&part, 0);
	snprintf(command, sizeof command, "cd %s && cp %s x && mv x %s", p->path, part.part_name, part.part_name);
	assert_int_equal(system(command), 0); /* the same bytes in another file */
	rp_part_close(&part);
	part = opened(p, "k");
	assert_int_equal(rp_part_lookup(&part, 0, hash), RP_RECORD_UNSURE);
	snprintf(command, sizeof command, "cd %s && rm %s", p->path, part.part_name);
	assert_int_equal(system(command), 0);
	rp_part_close(&part);
	part = opened(p, "k"); /* the bytes are gone: so are the records */
	assert_int_equal(rp_part_lookup(&part, 0, hash), RP_RECORD_NONE);
	write_piece(&part, 0);
	snprintf(command, sizeof command, "cd %s && printf X | dd of=%s bs=1 seek=70 conv=notrunc 2>/dev/null", p->path, part.journal_name);
	assert_int_equal(system(command), 0);
	assert_int_not_equal(rp_part_lookup(&part, 0, hash), RP_RECORD_SURE);
	rp_part_discard(&part);
	rp_part_close(&part);
}

static void test_two_writers(void **state)
{
	const place *p = *state;
	unsigned char hash[RP_HASH_BYTES];
	rp_part one = opened(p, "k"), two = opened(p, "k");
	assert_true(one.first);
	write_piece(&one, 0);
	write_piece(&two, 2);
	assert_int_equal(rp_part_lookup(&one, 2, hash), RP_RECORD_SURE);
	assert_int_equal(rp_part_lookup(&two, 0, hash), RP_RECORD_SURE);
	write_piece(&one, 1);
	write_piece(&two, 1);
	assert_int_equal(rp_part_publish(&one, NULL), RP_OK);
	assert_int_equal(rp_part_publish(&two, NULL), RP_OK); /* it is published already */
	rp_part_close(&one);
	rp_part_close(&two);
	assert_int_equal(entries(p), 1);
}

static void test_shown_with_holes(void **state)
{
	const place *p = *state;
	rp_part part = opened(p, "k");
	write_piece(&part, 0);
	assert_int_equal(rp_part_expose(&part, NULL), RP_OK);
	assert_int_equal(rp_part_expose(&part, NULL), RP_OK);
	assert_int_equal(entries(p), 3);
	write_piece(&part, 1);
	write_piece(&part, 2);
	assert_int_equal(rp_part_publish(&part, NULL), RP_OK);
	rp_part_close(&part);
	assert_int_equal(entries(p), 1);
}

static void test_sweep(void **state)
{
	const place *p = *state;
	rp_part held = opened(p, "held"), left = opened(p, "left");
	rp_part_close(&left);
	rp_part_sweep(p->fd, "f.bin", true);
	assert_int_equal(entries(p), 2);
	rp_part_discard_empty(&held);
	rp_part_close(&held);
	assert_int_equal(entries(p), 0);
}

static void test_links_are_not_followed(void **state)
{
	const place *p = *state;
	rp_error err;
	int fd;
	char outside[80];
	snprintf(outside, sizeof outside, "%s.outside", p->path);
	assert_int_equal(mkdir(outside, 0777), 0);
	assert_int_equal(symlinkat(outside, p->fd, "models"), 0);
	assert_int_equal(rp_folder_open(p->path, "models/m", true, &fd, &err), RP_READ);
	assert_non_null(strstr(err.msg, "'models'"));
	assert_int_equal(rmdir(outside), 0); /* nothing was put there */
	assert_int_equal(unlinkat(p->fd, "models", 0), 0);
	assert_int_equal(rp_folder_open(p->path, "models/../x", true, &fd, &err), RP_FORMAT);
	assert_int_equal(rp_folder_open(p->path, "a//b", true, &fd, &err), RP_FORMAT);
	assert_int_equal(rp_folder_open(p->path, "a/b", false, &fd, &err), RP_NOT_FOUND);
	assert_int_equal(rp_folder_open(p->path, "a/b", true, &fd, &err), RP_OK);
	close(fd);
	rp_part part;
	char name[100];
	rp_part probe = opened(p, "k");
	snprintf(name, sizeof name, "%s", probe.part_name);
	rp_part_discard(&probe);
	rp_part_close(&probe);
	assert_int_equal(symlinkat("/tmp/nowhere", p->fd, name), 0);
	assert_int_equal(rp_part_open(&part, p->fd, p->path, "f.bin", "k", 1, SIZE, PIECES, &err), RP_WRITE);
	assert_int_equal(access("/tmp/nowhere", F_OK), -1);
}

static void test_names(void **state)
{
	(void)state;
	static const struct {
		const char *url, *name;
	} urls[] = {
		{"https://h/a/m.gguf?x=/y", "m.gguf"}, {"https://h/a%20b.gguf", "a b.gguf"}, {"https://h/", NULL}, {"https://h/a/..%2fx", NULL},
		{"https://h/.x", NULL}, {"https://h/a%00b", NULL}, {"https://h/a%0ab", NULL}, {"https://h/%ff", NULL},
	};
	for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
		char *name = rp_name_of_url(urls[i].url);
		if (urls[i].name == NULL)
			assert_null(name);
		else
			assert_string_equal(name, urls[i].name);
		free(name);
	}
	char *id = rp_id_of_name("-Model (1).gguf");
	assert_string_equal(id, "0Model--1-");
	free(id);
}

static void test_ranges(void **state)
{
	(void)state;
	rp_range *r;
	size_t n;
	rp_error err;
	static const char good[] = "# of a plan\n0 10\r\n\n4096\t1\n";
	assert_int_equal(rp_ranges_parse("r", good, strlen(good), &r, &n, &err), RP_OK);
	assert_int_equal(n, 2);
	assert_true(r[1].offset == 4096 && r[1].size == 1);
	free(r);
	static const char *const wrong[] = {"", "#\n", "0", "0 0\n", "-1 5\n", "1 2 3\n", "a b\n", "0 9007199254740992\n", "0x0 1\n", " 0 1\n"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(rp_ranges_parse("r", wrong[i], strlen(wrong[i]), &r, &n, &err), RP_FORMAT);
	assert_int_equal(rp_ranges_parse("r", "0 1\0\n", 5, &r, &n, &err), RP_FORMAT);
}

#define H "sha256:9f64a747e1b97f131fabb6b447296c9b6f0201e79fb3c5356e6c77e89b6a806a" /* of 01 02 03 04 */

static rp_code repair(const place *p, const char *list, rp_error *err)
{
	char *paths = NULL;
	const char *mirror = p->path;
	rp_fetch_opts o = {.store = p->path, .offline = true, .connections = 1, .program = "test", .mirrors = {&mirror, 1}};
	rp_code rc = rp_fetch_repair(&o, "list", list, strlen(list), NULL, &paths, err);
	free(paths);
	return rc;
}

/* Others that have the part open, now or meanwhile, may have changed what was written. */
static void test_shared_is_noticed(void **state)
{
	const place *p = *state;
	rp_part one = opened(p, "k");
	assert_false(rp_part_shared(&one));
	rp_part two = opened(p, "k");
	assert_true(rp_part_shared(&one) && rp_part_shared(&two));
	rp_part_close(&two);
	assert_true(rp_part_shared(&one)); /* it was */
	rp_part_close(&one);
	one = opened(p, "k");
	assert_false(rp_part_shared(&one));
	two = opened(p, "k");
	rp_part_close(&one);
	one = opened(p, "k"); /* the other is still there */
	assert_true(rp_part_shared(&one));
	rp_part_close(&two);
	rp_part_close(&one);
}

/* Whatever of it goes past the cache, the rest by the usual way: the bytes are there. */
static void test_past_the_cache(void **state)
{
	const place *p = *state;
	enum { N = 3 * RP_PART_ALIGN + 100 };
	unsigned char *data = aligned_alloc(RP_PART_ALIGN, 4 * RP_PART_ALIGN), hash[RP_HASH_BYTES], back[N];
	rp_part part;
	assert_non_null(data);
	for (size_t i = 0; i < N; i++)
		data[i] = (unsigned char)(i * 31 + i / 256);
	rp_sha256_once(data, N, hash);
	assert_int_equal(rp_part_open(&part, p->fd, p->path, "f.bin", "k", 1, N, 1, NULL), RP_OK);
	size_t done = rp_part_write_past_cache(&part, 0, data, N);
	assert_true(done == 0 || done == 3 * RP_PART_ALIGN);
	assert_int_equal(rp_part_write_past_cache(&part, 0, data + 1, 2 * RP_PART_ALIGN), 0);
	assert_int_equal(rp_part_write_past_cache(&part, 1, data, 2 * RP_PART_ALIGN), 0);
	assert_int_equal(rp_part_write(&part, 0, 0, data, N, done, hash, NULL), RP_OK);
	assert_int_equal(rp_part_read(&part, 0, back, N, NULL), RP_OK);
	assert_memory_equal(back, data, N);
	assert_int_equal(rp_part_lookup(&part, 0, hash), RP_RECORD_SURE);
	rp_part_discard(&part);
	rp_part_close(&part);
	free(data);
}

static void test_repair(void **state)
{
	const place *p = *state;
	rp_error err;
	static const char *const wrong[] = {"", "file 4 - /x\n", "reploid-pieces/1\npiece 0 4 " H "\n", "reploid-pieces/1\nfile 0 - /x\n",
		"reploid-pieces/1\nfile 4 /x\n", "reploid-pieces/1\nfile 4 - /x\npiece 0 5 " H "\n", "reploid-pieces/1\nfile 4 - /x\npiece 1 4 " H "\n",
		"reploid-pieces/1\nfile 8 - /x\npiece 4 4 " H "\npiece 0 4 " H "\n", "reploid-pieces/1\nfile 8 - /x\npiece 0 4 sha256:00\n",
		"reploid-pieces/1\nfile 8 - /x\nwhat\n", "reploid-pieces/1\nfile 9007199254740992 - /x\n", "reploid-pieces/1\nfile 8 - /x\npiece 0 0 " H "\n",
		"reploid-pieces/1\nfile 9007199254740991 - /x\n"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(repair(p, wrong[i], &err), RP_FORMAT);
	char *damaged = rp_asprintf("%s/w.bin", p->path), *copy = rp_asprintf("%s/copy.bin", p->path);
	char *list = rp_asprintf("reploid-pieces/1\n# one of two\nfile 8 - %s\npiece 0 4 " H "\n", damaged);
	assert_int_equal(repair(p, list, &err), RP_NOT_FOUND); /* nothing is there to repair */
	assert_int_equal(rp_write_file(damaged, "\1\2\3X\5\6\7\10more", 12, 0600, NULL), RP_OK);
	assert_int_equal(repair(p, list, &err), RP_OFFLINE);
	assert_int_equal(rp_write_file(copy, "\1\2\3\4zzzz", 8, 0600, NULL), RP_OK); /* another copy of this one piece */
	if (repair(p, list, &err) != RP_OK)
		fail_msg("%s", err.msg);
	char *data;
	size_t n;
	assert_int_equal(rp_read_file(damaged, 100, &data, &n, NULL), RP_OK);
	assert_int_equal(n, 8); /* what was past the end is gone, what was not listed is untouched */
	assert_memory_equal(data, "\1\2\3\4\5\6\7\10", 8);
	free(data);
	free(list);
	free(damaged);
	free(copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_goes_on, make_place, remove_place),
		cmocka_unit_test_setup_teardown(test_foreign_journal, make_place, remove_place),
		cmocka_unit_test_setup_teardown(test_two_writers, make_place, remove_place),
		cmocka_unit_test_setup_teardown(test_shown_with_holes, make_place, remove_place),
		cmocka_unit_test_setup_teardown(test_sweep, make_place, remove_place),
		cmocka_unit_test_setup_teardown(test_links_are_not_followed, make_place, remove_place),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test_setup_teardown(test_shared_is_noticed, make_place, remove_place),
		cmocka_unit_test_setup_teardown(test_past_the_cache, make_place, remove_place),
		cmocka_unit_test_setup_teardown(test_repair, make_place, remove_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
