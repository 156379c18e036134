/* One file by its address. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/fetch_impl.h"
#include "store/seeds.h"

rp_code rp_fetch_net(const rp_fetch_opts *o, rp_net **out, rp_error *err)
{
	rp_net_opts n = {.headers = o->headers.v, .n_headers = o->headers.n, .netrc = o->netrc, .proxy = o->proxy, .limit_rate = o->limit_rate,
		.connections = o->connections, .streams = o->streams, .program = o->program};
	return rp_net_open(&n, out, err);
}

rp_code rp_fetch_whole(const rp_fetch_opts *o, bool *given, unsigned char out[RP_HASH_BYTES], rp_error *err)
{
	*given = o->sha256 != NULL;
	if (*given && !(strlen(o->sha256) == 64 && rp_unhex(out, RP_HASH_BYTES, o->sha256, 64)))
		return rp_fail(err, RP_USAGE, "--sha256: expected 64 hexadecimal digits, found '%s'", o->sha256);
	return RP_OK;
}

rp_code rp_known_given(const rp_fetch_opts *o, uint64_t size, rp_known *k, rp_error *err)
{
	*k = (rp_known){.size = size};
	rp_code rc = rp_fetch_whole(o, &k->whole_known, k->whole, err);
	k->check_known = o->git_sha1 != NULL && rp_check_git_parse(o->git_sha1, size, &k->check);
	return rc == RP_OK && o->git_sha1 != NULL && !k->check_known ? rp_fail(err, RP_FORMAT, "the id of the git blob is none: '%s'", o->git_sha1) : rc;
}

void rp_known_free(rp_known *k)
{
	rp_buf_free(&k->key);
	free(k->pieces);
	*k = (rp_known){0};
}

static rp_code one_piece(rp_known *k, rp_error *err)
{
	k->pieces = rp_alloc(sizeof *k->pieces);
	if (k->pieces == NULL)
		return rp_no_memory(err, sizeof *k->pieces, "a piece");
	k->n_pieces = 1;
	k->pieces->size = k->size;
	memcpy(k->pieces->sha256, k->whole, RP_HASH_BYTES);
	return RP_OK;
}

static rp_code pieces_of_tree(rp_known *k, const rp_tree *t, rp_error *err)
{
	k->pieces = rp_alloc_array(t->n_pieces, sizeof *k->pieces);
	if (k->pieces == NULL)
		return rp_no_memory(err, t->n_pieces * sizeof *k->pieces, "pieces");
	k->n_pieces = t->n_pieces;
	for (size_t i = 0; i < t->n_pieces; i++) {
		rp_piece *p = &k->pieces[i];
		p->offset = i * t->piece_bytes;
		p->size = k->size - p->offset < t->piece_bytes ? k->size - p->offset : t->piece_bytes;
		memcpy(p->sha256, t->pieces[i], RP_HASH_BYTES);
	}
	return RP_OK;
}

/* A tree of the same file, kept from an earlier time, gives the hashes of its pieces. */
static rp_code look_for_tree(const rp_fetch_opts *o, rp_known *k, rp_error *err)
{
	rp_tree **trees;
	size_t n;
	rp_code rc = rp_tree_load(o->store, k->size, &trees, &n, err);
	if (rc != RP_OK)
		return rc;
	for (size_t i = 0; i < n; i++) {
		if (rc == RP_OK && k->pieces == NULL && trees[i]->whole_known && memcmp(trees[i]->whole, k->whole, RP_HASH_BYTES) == 0)
			rc = pieces_of_tree(k, trees[i], err);
		rp_tree_free(trees[i]);
	}
	free(trees);
	return rc;
}

rp_code rp_known_pieces(const rp_fetch_opts *o, rp_known *k, rp_error *err)
{
	if (!k->whole_known)
		return RP_OK;
	return k->size <= RP_PIECE_BYTES ? one_piece(k, err) : look_for_tree(o, k, err);
}

bool rp_known_key(rp_known *k)
{
	char hex[RP_HASH_HEX];
	rp_buf_init(&k->key, 8192);
	k->lasting = true;
	if (k->whole_known)
		rp_buf_addf(&k->key, "sha256 %s %llu", rp_hex(hex, k->whole, RP_HASH_BYTES), (unsigned long long)k->size);
	else if (k->check_known)
		rp_buf_addf(&k->key, "%s %s %llu", rp_check_word(k->check.kind), rp_hex(hex, k->check.digest, RP_HASH_BYTES), (unsigned long long)k->size);
	return k->whole_known || k->check_known;
}

/* A name for the content: its hash, else what the server calls this version. */
static rp_code make_key(const rp_head *head, const char *url, rp_known *k, rp_error *err)
{
	const rp_net_reply *r = &head->reply;
	if (rp_known_key(k))
		return k->key.failed ? rp_no_memory(err, 0, "a key") : RP_OK;
	char *shown = rp_net_shown(url);
	if (r->etag[0] != '\0' || r->modified[0] != '\0') {
		rp_buf_addf(&k->key, "version %s %s %s %llu", shown != NULL ? shown : "", r->etag, r->etag[0] != '\0' ? "" : r->modified,
			(unsigned long long)k->size);
	} else {
		k->lasting = false;
		rp_buf_addf(&k->key, "once %s %llu %ld", shown != NULL ? shown : "", (unsigned long long)rp_now_ns(), (long)getpid());
	}
	free(shown);
	return k->key.failed ? rp_no_memory(err, 0, "a key") : RP_OK;
}

/* What a Hub says of a file that is in git itself: the id of its blob, as its ETag. */
static bool is_git_blob(const rp_head *head, const char *url, rp_known *k)
{
	return rp_check_git_parse(head->reply.linked_etag, head->size, &k->check) ||
		(rp_net_same_origin(head->url, url) && rp_check_git_parse(head->reply.etag, head->size, &k->check));
}

static rp_code learn(const rp_fetch_opts *o, const rp_head *head, const char *url, rp_known *k, rp_error *err)
{
	const char *linked = head->reply.linked_etag;
	k->size = head->size;
	linked += *linked == '"';
	if (!k->whole_known && strspn(linked, "0123456789abcdef") == 64 && (linked[64] == '"' || linked[64] == '\0'))
		k->whole_known = rp_unhex(k->whole, RP_HASH_BYTES, linked, 64); /* the Hub says the SHA-256 of large files */
	if (!k->whole_known && !k->check_known && o->hub)
		k->check_known = is_git_blob(head, url, k);
	k->check.size = head->size;
	rp_code rc = make_key(head, url, k, err);
	return rc == RP_OK ? rp_known_pieces(o, k, err) : rc;
}

rp_code rp_fetch_add(rp_job *job, const rp_target *target, const rp_known *k, rp_item **out, rp_error *err)
{
	rp_code rc = rp_job_add(job, target->folder, target->shown, target->name, k->key.data, k->key.len, k->size, k->pieces, k->n_pieces,
		k->whole_known ? k->whole : NULL, out, err);
	return rc == RP_OK && k->check_known ? rp_item_add_check(*out, &k->check, err) : rc;
}

static rp_code add_mirrors(const rp_fetch_opts *o, rp_net *net, rp_job *job, rp_item *item, const char *url, rp_error *err)
{
	rp_code rc = RP_OK;
	bool checked = item->pieces != NULL || item->whole_known || item->n_checks > 0, told = false;
	for (size_t i = 0; i < o->mirrors.n && rc == RP_OK; i++) {
		rp_place *place;
		rp_head head;
		rp_error error;
		if (!rp_net_is_http(o->mirrors.v[i]))
			continue; /* a local one has been looked at */
		if (!checked) {
			if (!told)
				rp_note(o, "mirror left out: bytes of several sources are put together only where a hash checks them (--sha256)");
			told = true;
			continue;
		}
		bool same = rp_net_same_origin(o->mirrors.v[i], url);
		rp_code said = rp_get_head(o, net, o->mirrors.v[i], same, &head, &error);
		bool got = said == RP_OK;
		if (said == RP_CANCELLED)
			return rp_fail(err, said, "%s", error.msg);
		if (said == RP_OK && head.size != item->size)
			said = rp_url_prefix(&error, rp_fail(&error, RP_CHANGED, "has %llu bytes, not %llu", (unsigned long long)head.size,
				(unsigned long long)item->size), o->mirrors.v[i]);
		if (got)
			free(head.url);
		if (said != RP_OK) {
			rp_note(o, "mirror left out: %s", error.msg);
			continue;
		}
		rc = rp_job_add_place(job, item, o->mirrors.v[i], same, &place, err);
		if (rc == RP_OK)
			place->no_ranges = !head.ranges;
	}
	return rc;
}

/* Keep the tree, so that the file can be repaired later. A store that cannot be written is no reason to fail. */
void rp_fetch_keep_tree(const rp_fetch_opts *o, const rp_item *item)
{
	if (item->found == NULL || item->partly || item->n_done < item->n_pieces)
		return;
	char *sources[8];
	rp_tree t = {.size = item->size, .piece_bytes = RP_PIECE_BYTES, .whole_known = item->whole_known, .pieces = item->found,
		.n_pieces = item->n_pieces};
	memcpy(t.whole, item->whole, RP_HASH_BYTES);
	for (size_t i = 0; i < item->n_places && t.n_sources < sizeof sources / sizeof *sources; i++)
		if ((sources[t.n_sources] = rp_net_shown(item->places[i].url)) != NULL)
			t.n_sources++;
	t.sources = (const char **)sources;
	if (rp_folder_make(o->store, NULL) == RP_OK)
		rp_tree_save(o->store, &t, NULL);
	for (size_t i = 0; i < t.n_sources; i++)
		free(sources[i]);
}

rp_code rp_fetch_seeds(const rp_fetch_opts *o, rp_job *job, rp_item *item, rp_error *err)
{
	rp_seeds seeds;
	if (item->n_done == item->n_pieces || (item->pieces == NULL && !item->whole_known) || o->dry_run)
		return RP_OK;
	rp_code rc = rp_seeds_find(o, &seeds, err);
	if (rc != RP_OK)
		return rc;
	rc = rp_seed_item(job, item, &seeds, err);
	rp_seeds_free(&seeds);
	return rc;
}

static rp_code fetch_known(const rp_fetch_opts *o, rp_net *net, const char *url, const rp_head *head, const rp_target *target, rp_known *k,
	rp_error *err)
{
	rp_job *job;
	rp_item *item = NULL;
	rp_place *place;
	rp_code rc = rp_job_new(o, net, &job, err);
	if (rc != RP_OK)
		return rc;
	rc = rp_fetch_add(job, target, k, &item, err);
	if (rc == RP_OK && o->ranges != NULL)
		rc = rp_job_want(job, item, o->ranges, o->n_ranges, err);
	if (rc == RP_OK)
		rc = rp_job_add_place(job, item, url, true, &place, err);
	if (rc == RP_OK) {
		place->no_ranges = !head->ranges;
		memcpy(place->etag, head->reply.etag, sizeof place->etag);
		memcpy(place->modified, head->reply.modified, sizeof place->modified);
		if (strcmp(head->url, url) != 0)
			place->resolved = rp_strdup(head->url);
		if (item->n_done > 0 && !item->partly)
			rp_note(o, "%s: %zu of %zu pieces are here already", target->name, item->n_done, item->n_pieces);
		rc = rp_fetch_seeds(o, job, item, err);
	}
	if (rc == RP_OK && item->n_done < item->n_pieces)
		rc = add_mirrors(o, net, job, item, url, err);
	if (rc == RP_OK)
		rc = rp_job_run(job, err);
	if (rc == RP_OK && !o->dry_run)
		rp_fetch_keep_tree(o, item);
	else if (item != NULL && (!k->lasting || (rc == RP_HASH && k->pieces == NULL)))
		rp_part_discard(&item->part);
	rp_job_free(job);
	return rc;
}

static void tell_file(const rp_fetch_opts *o, const rp_target *t, const char *check)
{
	if (o->event != NULL)
		o->event(o->user, &(rp_fetch_event){.kind = RP_FETCH_FILE, .text = t->path, .check = check});
}

rp_code rp_fetch_empty(const rp_fetch_opts *o, const rp_target *t, const rp_known *k, rp_error *err)
{
	unsigned char hash[RP_HASH_BYTES];
	rp_sha256_once("", 0, hash);
	if (k->whole_known && memcmp(hash, k->whole, sizeof hash) != 0)
		return rp_fail(err, RP_HASH, "%s: the source is empty, and that is not the file with the given sha256", t->path);
	rp_code rc = k->check_known ? rp_check_fd(-1, t->path, &k->check, err) : RP_OK;
	if (rc == RP_OK)
		rc = rp_write_file(t->path, "", 0, 0644, err);
	if (rc == RP_OK)
		tell_file(o, t, k->whole_known ? rp_check_word(RP_CHECK_SHA256) : k->check_known ? rp_check_word(k->check.kind) : "none");
	return rc;
}

rp_code rp_fetch_to(const rp_fetch_opts *o, rp_net *net, const char *url, const rp_target *target, rp_error *err)
{
	rp_known k;
	rp_head head;
	rp_code rc = rp_known_given(o, 0, &k, err);
	if (rc != RP_OK)
		return rc;
	rc = rp_get_head(o, net, url, true, &head, err);
	if (rc != RP_OK)
		return rc;
	if (o->dry_run && (head.size == 0 || head.size == RP_NET_UNKNOWN)) {
		rp_note(o, "%s: the server tells %s", target->name, head.size == 0 ? "that it is empty" : "no size");
	} else if (head.size == 0) {
		rc = rp_fetch_empty(o, target, &k, err);
	} else if (head.size == RP_NET_UNKNOWN && o->ranges != NULL) {
		rc = rp_url_prefix(err, rp_fail(err, RP_RANGE, "the server tells no size, so ranges of the file cannot be fetched"), url);
	} else if (head.size == RP_NET_UNKNOWN) {
		uint64_t size;
		rp_note(o, "%s: the server tells no size, so an interrupted transfer starts again", target->name);
		rc = rp_get_stream(o, net, url, true, target->folder, target->path, target->name, k.whole_known ? k.whole : NULL, &size, err);
		if (rc == RP_OK)
			tell_file(o, target, k.whole_known ? rp_check_word(RP_CHECK_SHA256) : "none");
	} else {
		if (!head.ranges)
			rp_note(o, "%s: the server sends whole files only; an interrupted transfer is read again from its beginning", target->name);
		rc = learn(o, &head, url, &k, err);
		if (rc == RP_OK)
			rc = fetch_known(o, net, url, &head, target, &k, err);
	}
	rp_known_free(&k);
	free(head.url);
	return rc;
}

static bool is_git_file(const rp_fetch_opts *o, const rp_target *t)
{
	rp_check check;
	struct stat st;
	int fd = openat(t->folder, t->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	bool same = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && rp_check_git_parse(o->git_sha1, (uint64_t)st.st_size, &check) &&
		rp_check_fd(fd, t->path, &check, NULL) == RP_OK;
	if (fd >= 0)
		close(fd);
	return same;
}

rp_code rp_fetch_present(const rp_fetch_opts *o, const rp_target *target, rp_error *err)
{
	enum { BLOCK = 256 << 10 };
	rp_known k = {0};
	unsigned char hash[RP_HASH_BYTES];
	rp_sha256 *h = NULL;
	rp_code rc = rp_fetch_whole(o, &k.whole_known, k.whole, err);
	if (rc != RP_OK)
		return rc;
	if (!k.whole_known && o->git_sha1 != NULL && target->name != NULL)
		return is_git_file(o, target) ? RP_OK : RP_NOT_FOUND;
	int fd = k.whole_known && target->name != NULL ? openat(target->folder, target->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	unsigned char *block = fd >= 0 ? rp_alloc(BLOCK) : NULL;
	if (block == NULL || rp_sha256_new(&h, NULL) != RP_OK) {
		if (fd >= 0)
			close(fd);
		free(block);
		return RP_NOT_FOUND;
	}
	ssize_t n;
	while ((n = read(fd, block, BLOCK)) > 0 && !(o->cancel != NULL && atomic_load(o->cancel)))
		rp_sha256_update(h, block, (size_t)n);
	rp_sha256_final(h, hash);
	rp_sha256_free(h);
	free(block);
	close(fd);
	if (n != 0 || memcmp(hash, k.whole, sizeof hash) != 0)
		return RP_NOT_FOUND;
	rp_part_sweep(target->folder, target->name, false);
	return RP_OK;
}

rp_code rp_fetch_url(const rp_fetch_opts *o, const char *url, char **path, rp_error *err)
{
	rp_target target = {.folder = -1};
	rp_net *net = NULL;
	char *name = rp_name_of_url(url);
	rp_code rc = RP_OK;
	if (o->output != NULL) {
		rc = rp_target_output(o->output, name, &target, err);
	} else if (name == NULL) {
		rc = rp_url_prefix(err, rp_fail(err, RP_USAGE, "the address ends in no file name: give one with -o"), url);
	} else {
		char *id = rp_id_of_name(name);
		rc = id == NULL ? rp_no_memory(err, 0, "a name") : rp_target_store(o->store, id, name, &target, err);
		free(id);
	}
	free(name);
	if (rc == RP_OK)
		rc = rp_fetch_present(o, &target, err);
	if (rc == RP_NOT_FOUND && target.path != NULL) {
		rc = o->offline ? rp_url_prefix(err, rp_fail(err, RP_OFFLINE, "not here, and --offline forbids to fetch it"), url) :
			rp_fetch_net(o, &net, err);
		if (rc == RP_OK)
			rc = rp_fetch_to(o, net, url, &target, err);
	}
	if (rc == RP_OK && (*path = rp_strdup(target.path)) == NULL)
		rc = rp_no_memory(err, 0, "a path");
	rp_net_close(net);
	rp_target_free(&target);
	return rc;
}
