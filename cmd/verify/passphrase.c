/* The passphrase of a secret key. */
#include "verify.h"

#include "base/signals.h"
#include "hash/sums.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <sodium.h>

/* A line of fd without its end. */
static rp_code read_line(int fd, const char *name, char out[RP_PASSPHRASE_MAX], rp_error *err)
{
	size_t n = 0;
	char c = '\0';
	for (;;) {
		ssize_t got = read(fd, &c, 1);
		if (got < 0 && errno == EINTR && !atomic_load(rp_cancel()))
			continue;
		if (got < 0 && errno == EINTR)
			return rp_fail(err, RP_CANCELLED, "stopped by a signal");
		if (got < 0)
			return rp_fail_errno(err, RP_READ, errno, "%s: cannot read a passphrase", name);
		if (got == 0 || c == '\n')
			break;
		if (n + 1 == RP_PASSPHRASE_MAX)
			return rp_fail(err, RP_FORMAT, "%s: a passphrase has at most %d bytes", name, RP_PASSPHRASE_MAX - 1);
		out[n++] = c;
	}
	n -= n > 0 && out[n - 1] == '\r';
	out[n] = '\0';
	if (strlen(out) != n)
		return rp_fail(err, RP_FORMAT, "%s: a passphrase has no NUL bytes", name);
	return n > 0 ? RP_OK : rp_fail(err, RP_FORMAT, "%s: the passphrase is empty", name);
}

static rp_code from_file(const char *path, char out[RP_PASSPHRASE_MAX], rp_error *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return rp_fail_errno(err, errno == ENOENT ? RP_NOT_FOUND : RP_READ, errno, "%s: cannot open", path);
	bool others = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077) != 0;
	rp_code code = others ? rp_fail(err, RP_READ, "%s: others may read it (mode %04o); make it yours alone with chmod 600", path,
		st.st_mode & 07777) : read_line(fd, path, out, err);
	close(fd);
	return code;
}

static void prompt_for(const char *prompt, const char *key)
{
	rp_buf line;
	rp_buf_init(&line, 0);
	rp_buf_addf(&line, "%s: %s ", verify_program.name, prompt);
	rp_shell_name(&line, key);
	rp_buf_adds(&line, ": ");
	rp_write_fd(STDERR_FILENO, line.data, line.len, "stderr", NULL);
	rp_buf_free(&line);
}

/* Without echo, which is put back whatever happens. What was typed before the prompt is dropped. */
static rp_code from_terminal(int fd, const char *prompt, const char *key, char out[RP_PASSPHRASE_MAX], rp_error *err)
{
	struct termios before, silent;
	bool hides = tcgetattr(fd, &before) == 0;
	if (hides) {
		silent = before;
		silent.c_lflag &= ~(tcflag_t)ECHO;
		tcsetattr(fd, TCSAFLUSH, &silent);
	}
	prompt_for(prompt, key);
	rp_code code = read_line(fd, "the terminal", out, err);
	if (hides)
		tcsetattr(fd, TCSAFLUSH, &before);
	rp_write_fd(STDERR_FILENO, "\n", 1, "stderr", NULL);
	return code;
}

static rp_code twice(int fd, const char *key, char out[RP_PASSPHRASE_MAX], rp_error *err)
{
	char second[RP_PASSPHRASE_MAX];
	rp_code code = from_terminal(fd, "new passphrase for", key, out, err);
	if (code == RP_OK)
		code = from_terminal(fd, "once more, for", key, second, err);
	if (code == RP_OK && strcmp(out, second) != 0)
		code = rp_fail(err, RP_USAGE, "the two passphrases differ");
	sodium_memzero(second, sizeof second);
	return code;
}

rp_code verify_passphrase(const verify_state *v, const char *key, bool again, char out[RP_PASSPHRASE_MAX], rp_error *err)
{
	if (v->o.passphrase_file != NULL)
		return from_file(v->o.passphrase_file, out, err);
	int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return rp_fail(err, RP_USAGE, "%s: needs a passphrase, and there is no terminal to ask on; give it with --passphrase-file", key);
	rp_code code = again ? twice(fd, key, out, err) : from_terminal(fd, "passphrase of", key, out, err);
	close(fd);
	return code;
}
