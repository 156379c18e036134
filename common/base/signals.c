#define _DEFAULT_SOURCE
#include "base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/select.h>
#include <unistd.h>

static atomic_bool cancelled;

static void on_signal(int number)
{
	(void)number;
	atomic_store(&cancelled, true);
}

const atomic_bool *rp_cancel(void)
{
	return &cancelled;
}

bool rp_wait_readable(int fd)
{
	/* A signal between the look at the flag and the wait would be missed; so both are blocked but inside pselect. */
	sigset_t both, before;
	fd_set set;
	sigemptyset(&both);
	sigaddset(&both, SIGINT);
	sigaddset(&both, SIGTERM);
	sigprocmask(SIG_BLOCK, &both, &before);
	do {
		FD_ZERO(&set);
		FD_SET(fd, &set);
	} while (!atomic_load(&cancelled) && pselect(fd + 1, &set, NULL, NULL, NULL, &before) < 0 && errno == EINTR);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return !atomic_load(&cancelled);
}

rp_code rp_signals(rp_error *err)
{
	bool stdout_closed = fcntl(STDOUT_FILENO, F_GETFD) < 0 && errno == EBADF;
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0)
			return rp_fail_errno(err, RP_WRITE, errno, "/dev/null: cannot open in place of a closed descriptor");
	}
	/* No SA_RESTART: a read of standard input ends at once. SA_RESETHAND: the second signal is not for us. */
	struct sigaction stop = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	static const int ends[] = {SIGINT, SIGTERM};
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		struct sigaction old;
		if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* nohup and background jobs mean it */
			sigaction(ends[i], &stop, NULL);
	}
	sigaction(SIGPIPE, &ignore, NULL);
	if (stdout_closed)
		return rp_fail(err, RP_WRITE, "standard output is closed; redirect it to a file or to /dev/null");
	return RP_OK;
}
