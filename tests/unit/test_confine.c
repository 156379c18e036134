/* Each case runs in a child process: confinement cannot be undone. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/confine.h"

static char folder[] = "/tmp/reploid-confine-XXXXXX";
static char inside[64], outside[64];

static int make_files(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(inside, sizeof inside, "%s/in", folder);
	snprintf(outside, sizeof outside, "%s/out", folder);
	mkdir(inside, 0700);
	return rp_write_file(outside, "x", 1, 0600, NULL) == RP_OK ? 0 : -1;
}

static int remove_files(void **state)
{
	(void)state;
	char new_file[80];
	snprintf(new_file, sizeof new_file, "%s/new", inside);
	unlink(new_file);
	unlink(outside);
	rmdir(inside);
	return rmdir(folder);
}

/* What a confined child could do, a bit each; 0x80: what is in force was not what the kernel has. */
enum { WROTE_INSIDE = 1, READ_OUTSIDE = 2, HAS_SOCKET = 4, RAN_PROGRAM = 8, KEPT_DESCRIPTOR = 16, NO_FILES = 32, NO_CALLS = 64 };

static int child(bool network)
{
	const char *const write_paths[] = {inside};
	rp_confinement c = {.write = write_paths, .n_write = 1, .network = network};
	rp_confined got;
	int kept = open(outside, O_RDONLY), result = 0;
	char byte, new_file[80];
	if (rp_confine(&c, &got, NULL) != RP_OK)
		return 0x80;
	snprintf(new_file, sizeof new_file, "%s/new", inside);
	if (open(new_file, O_CREAT | O_RDWR, 0600) >= 0)
		result |= WROTE_INSIDE;
	if (open(outside, O_RDONLY) >= 0)
		result |= READ_OUTSIDE;
	if (socket(AF_INET, SOCK_STREAM, 0) >= 0)
		result |= HAS_SOCKET;
	if (read(kept, &byte, 1) == 1)
		result |= KEPT_DESCRIPTOR;
	execl("/bin/true", "true", (char *)NULL);
	if (errno != EPERM && errno != EACCES)
		result |= RAN_PROGRAM;
	return result | (got.files ? 0 : NO_FILES) | (got.calls ? 0 : NO_CALLS);
}

static int confined(bool network)
{
	int status;
	pid_t pid = fork();
	if (pid == 0)
		_exit(child(network));
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void only_what_is_named_stays(void **state)
{
	(void)state;
	int r = confined(false);
	if (r & NO_FILES || r & NO_CALLS) {
		printf("SKIP: this kernel has no %s\n", r & NO_FILES ? "Landlock" : "seccomp filters");
		skip();
	}
	assert_int_equal(r, WROTE_INSIDE | KEPT_DESCRIPTOR);
}

static void the_network_can_be_kept(void **state)
{
	(void)state;
	int r = confined(true);
	assert_true(r & HAS_SOCKET);
	assert_true(r & WROTE_INSIDE);
	if (!(r & NO_FILES))
		assert_false(r & READ_OUTSIDE);
}

/* In a strict child: what could be changed, a bit each. */
static int strict_child(bool writes)
{
	const char *const read_paths[] = {"/"}, *const write_paths[] = {inside};
	rp_confinement c = {.read = read_paths, .n_read = 1, .write = write_paths, .n_write = writes, .strict = true};
	const struct timespec times[2] = {{1, 0}, {1, 0}};
	rp_confined got;
	char new_file[80];
	int kept = open(outside, O_RDONLY), result = 0;
	if (rp_confine(&c, &got, NULL) != RP_OK)
		return 0x80;
	if (!got.calls)
		return NO_CALLS;
	snprintf(new_file, sizeof new_file, "%s/strict", inside);
	int fd = open(new_file, O_CREAT | O_RDWR, 0600);
	result |= fd >= 0 && ftruncate(fd, 5) == 0 && unlink(new_file) == 0 ? 1 : 0;
	result |= chmod(outside, 0644) == 0 || chmod(inside, 0755) == 0 ? 2 : 0;
	result |= utimensat(AT_FDCWD, outside, times, 0) == 0 || futimens(kept, times) == 0 ? 4 : 0;
	result |= chown(outside, getuid(), getgid()) == 0 || fchown(kept, getuid(), getgid()) == 0 ? 8 : 0;
	result |= fchmod(kept, 0644) == 0 || (!writes && mkdir(new_file, 0700) == 0) ? 16 : 0;
	return result;
}

static void strict_changes_nothing(void **state)
{
	(void)state;
	for (int writes = 0; writes < 2; writes++) {
		int status;
		pid_t pid = fork();
		if (pid == 0)
			_exit(strict_child(writes == 1));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) == NO_CALLS) {
			printf("SKIP: this kernel has no seccomp filters\n");
			skip();
		}
		assert_int_equal(WEXITSTATUS(status), writes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_named_stays),
		cmocka_unit_test(the_network_can_be_kept),
		cmocka_unit_test(strict_changes_nothing),
	};
	return cmocka_run_group_tests(tests, make_files, remove_files);
}
