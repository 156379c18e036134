/* Loaded into a program (LD_PRELOAD): when that first reads a file by position, which reploid-verify does after it has confined itself, try
 * what a taken-over program would, and say on stderr what came of it. PROBE: a folder with a file "there". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *what, int done)
{
	dprintf(STDERR_FILENO, "probe: %s: %s\n", what, done ? "done" : "refused");
}

static int runs_a_program(void)
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(42);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void attack(const char *folder)
{
	char there[300], new_file[300], byte;
	snprintf(there, sizeof there, "%s/there", folder);
	snprintf(new_file, sizeof new_file, "%s/new", folder);
	int fd = open(there, O_RDONLY);
	say("read", fd >= 0 && read(fd, &byte, 1) == 1);
	say("inet socket", socket(AF_INET, SOCK_STREAM, 0) >= 0);
	say("unix socket", socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
	say("open for writing", open(there, O_WRONLY) >= 0);
	say("create", open(new_file, O_WRONLY | O_CREAT, 0600) >= 0);
	say("cut", truncate(there, 0) == 0);
	say("remove", unlink(there) == 0);
	say("rename", rename(there, new_file) == 0);
	say("make a folder", mkdir(new_file, 0700) == 0);
	say("link", symlink(there, new_file) == 0);
	say("mode", chmod(there, 0777) == 0);
	say("mode of what is open", fchmod(fd, 0777) == 0);
	say("times", futimens(fd, NULL) == 0);
	say("run a program", runs_a_program());
}

ssize_t pread64(int fd, void *to, size_t n, off64_t at)
{
	static atomic_flag tried = ATOMIC_FLAG_INIT;
	ssize_t (*real)(int, void *, size_t, off64_t) = (ssize_t(*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
	const char *folder = getenv("PROBE");
	if (folder != NULL && !atomic_flag_test_and_set(&tried))
		attack(folder);
	return real(fd, to, n, at);
}
