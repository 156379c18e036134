/* confine: give up what a program no longer needs, so that a defect met in a hostile file has nowhere to go.
 *
 * On Linux: Landlock limits the files that can be opened from now on, a seccomp filter refuses system calls no program here needs
 * after its start (running programs, tracing, kernel modules, and sockets unless the network is kept). Descriptors that are open
 * stay usable. There is no way back. Call it while the process has one thread: Landlock binds the calling thread and what it starts.
 */
#ifndef RP_CONFINE_H
#define RP_CONFINE_H

#include "base/base.h"

typedef struct rp_confinement {
	const char *const *read; /* files and folders (with all beneath) that may be opened for reading; missing ones are skipped */
	size_t n_read;
	const char *const *write; /* the same for reading, writing, creating, renaming and removing */
	size_t n_write;
	bool network; /* keep sockets */
	/* Refuse also the calls that change files' modes, owners, times and attributes, which Landlock lets pass (new files are 0600 then);
	 * and when n_write is 0 those that make, rename, cut and remove files, whatever the kernel has of Landlock. */
	bool strict;
} rp_confinement;

typedef struct rp_confined {
	bool files, calls; /* which of the two this kernel put in force */
} rp_confined;

/* A kernel without these facilities is no error: got says what is in force. RP_INTERNAL when the kernel has them and refuses. */
rp_code rp_confine(const rp_confinement *c, rp_confined *got, rp_error *err);

#endif
