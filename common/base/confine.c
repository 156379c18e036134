#define _GNU_SOURCE /* O_PATH, syscall() */
#include "base/confine.h"

#if defined(__linux__)

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The leak check of a sanitizer build stops the threads by ptrace and reads /proc; without both it calls every run a failure.
 * clang says by __has_feature that it is one, gcc by the other word (from 14 on by both). */
#if defined(__SANITIZE_ADDRESS__)
#define LEAK_CHECK 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAK_CHECK 1
#endif
#endif

/* ---- Landlock: which files can be opened ---- */

/* Rights by the version of the interface that brought them; asking an older kernel for a newer right is an error. */
enum { RIGHTS_V1_LAST = 12, RIGHT_REFER = 13, RIGHT_TRUNCATE = 14 };
#define RIGHT(bit) ((uint64_t)1 << (bit))
#define FILE_READ (LANDLOCK_ACCESS_FS_READ_FILE)
#define FILE_WRITE (LANDLOCK_ACCESS_FS_WRITE_FILE | RIGHT(RIGHT_TRUNCATE))
#define TREE_READ (FILE_READ | LANDLOCK_ACCESS_FS_READ_DIR)
#define TREE_WRITE                                                                                                              \
	(TREE_READ | FILE_WRITE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |      \
		LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SYM | RIGHT(RIGHT_REFER))

static uint64_t rights_of_version(long version)
{
	uint64_t all = RIGHT(RIGHTS_V1_LAST + 1) - 1;
	if (version >= 2)
		all |= RIGHT(RIGHT_REFER);
	if (version >= 3)
		all |= RIGHT(RIGHT_TRUNCATE);
	return all;
}

static rp_code allow(int ruleset, const char *path, bool write, uint64_t known, rp_error *err)
{
	int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return RP_OK;
	struct stat st;
	bool folder = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
	uint64_t rights = folder ? (write ? TREE_WRITE : TREE_READ) : (write ? FILE_READ | FILE_WRITE : FILE_READ);
	struct landlock_path_beneath_attr rule = {.allowed_access = rights & known, .parent_fd = fd};
	long failed = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	int why = errno;
	close(fd);
	return failed ? rp_fail_errno(err, RP_INTERNAL, why, "%s: cannot keep access to it while confining", path) : RP_OK;
}

static rp_code confine_files(const rp_confinement *c, bool *done, rp_error *err)
{
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (version < 1)
		return RP_OK;
	uint64_t known = rights_of_version(version);
	struct landlock_ruleset_attr attr = {.handled_access_fs = known};
	int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
	if (ruleset < 0)
		return rp_fail_errno(err, RP_INTERNAL, errno, "Landlock refuses a ruleset");
	rp_code rc = RP_OK;
	for (size_t i = 0; rc == RP_OK && i < c->n_read; i++)
		rc = allow(ruleset, c->read[i], false, known, err);
	for (size_t i = 0; rc == RP_OK && i < c->n_write; i++)
		rc = allow(ruleset, c->write[i], true, known, err);
#if defined(LEAK_CHECK)
	if (rc == RP_OK)
		rc = allow(ruleset, "/proc", false, known, err);
#endif
	if (rc == RP_OK && syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
		rc = rp_fail_errno(err, RP_INTERNAL, errno, "Landlock refuses to confine this process");
	close(ruleset);
	*done = rc == RP_OK;
	return rc;
}

/* ---- seccomp: which system calls can be made ---- */

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCH AUDIT_ARCH_RISCV64
#endif

#if defined(ARCH)
#if defined(LEAK_CHECK)
#define TRACING SYS_kexec_load /* the search for leaks at the end traces its own process; this one stands in the list anyway */
#else
#define TRACING SYS_ptrace
#endif
static const unsigned never[] = {SYS_execve, SYS_execveat, TRACING, SYS_process_vm_readv, SYS_process_vm_writev, SYS_mount,
	SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_bpf, SYS_perf_event_open, SYS_init_module, SYS_finit_module, SYS_delete_module,
	SYS_kexec_load, SYS_add_key, SYS_request_key, SYS_keyctl, SYS_userfaultfd, SYS_unshare, SYS_setns, SYS_io_uring_setup};
static const unsigned sockets[] = {SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4};
/* Newer processors lack the older calls. */
static const unsigned metadata[] = {SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr,
	SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr,
#if defined(SYS_fchmodat2)
	SYS_fchmodat2,
#endif
#if defined(SYS_chmod)
	SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat,
#endif
};
static const unsigned changes[] = {SYS_mkdirat, SYS_mknodat, SYS_unlinkat, SYS_linkat, SYS_symlinkat, SYS_renameat2, SYS_truncate,
	SYS_ftruncate, SYS_fallocate,
#if defined(SYS_renameat)
	SYS_renameat,
#endif
#if defined(SYS_mkdir)
	SYS_mkdir, SYS_mknod, SYS_rmdir, SYS_unlink, SYS_link, SYS_symlink, SYS_rename, SYS_creat,
#endif
};

enum {
	N_NEVER = sizeof never / sizeof *never,
	N_SOCKETS = sizeof sockets / sizeof *sockets,
	N_METADATA = sizeof metadata / sizeof *metadata,
	N_CHANGES = sizeof changes / sizeof *changes
};

typedef struct program {
	struct sock_filter code[2 * (N_NEVER + N_SOCKETS + N_METADATA + N_CHANGES) + 16];
	unsigned short n;
} program;

static void emit(program *p, unsigned op, unsigned k, unsigned yes, unsigned no)
{
	p->code[p->n++] = (struct sock_filter){(unsigned short)op, (unsigned char)yes, (unsigned char)no, k};
}

static void refuse(program *p, const unsigned *calls, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		emit(p, BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
		emit(p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
	}
}

static rp_code confine_calls(const rp_confinement *c, bool *done, rp_error *err)
{
	program p = {.n = 0};
	emit(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
	emit(&p, BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
	emit(&p, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
	emit(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
#if defined(__x86_64__)
	/* the x32 interface has the same arch value and its own numbers */
	emit(&p, BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1);
	emit(&p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
#endif
	refuse(&p, never, N_NEVER);
	if (!c->network)
		refuse(&p, sockets, N_SOCKETS);
	if (c->strict)
		refuse(&p, metadata, N_METADATA);
	if (c->strict && c->n_write == 0)
		refuse(&p, changes, N_CHANGES);
	emit(&p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	struct sock_fprog filter = {p.n, p.code};
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0) {
		*done = true;
		return RP_OK;
	}
	if (errno == ENOSYS || errno == EINVAL) /* a kernel without filters */
		return RP_OK;
	return rp_fail_errno(err, RP_INTERNAL, errno, "seccomp refuses to confine this process");
}
#else
static rp_code confine_calls(const rp_confinement *c, bool *done, rp_error *err)
{
	(void)c;
	(void)done;
	(void)err;
	return RP_OK;
}
#endif

rp_code rp_confine(const rp_confinement *c, rp_confined *got, rp_error *err)
{
	*got = (rp_confined){false, false};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return RP_OK;
	rp_code rc = confine_files(c, &got->files, err);
	return rc == RP_OK ? confine_calls(c, &got->calls, err) : rc;
}

#else

rp_code rp_confine(const rp_confinement *c, rp_confined *got, rp_error *err)
{
	(void)c;
	(void)err;
	*got = (rp_confined){false, false};
	return RP_OK;
}

#endif
