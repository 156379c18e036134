/* What the catalogue says of a model: which manifest it must have, sums of files the manifest knows none of, and where all of it lies. */
#include "subject.h"

#include "store/catalog.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

static const char SITE[] = "https://replo.id"; /* addresses in the catalogue may leave it out */

static rp_code read_catalogue(const char *named, rp_catalog **out, rp_error *err)
{
	char *path = NULL, *text = NULL;
	size_t n = 0;
	if (named == NULL && rp_data_locate("models.json", &path, NULL) != RP_OK)
		return RP_OK; /* the programs are installed without one */
	const char *name = named != NULL ? named : path;
	rp_code code = rp_read_file(name, RP_MAX_CATALOG_BYTES, &text, &n, err);
	if (code == RP_OK)
		code = rp_catalog_parse(name, text, n, SITE, out, err);
	free(text);
	free(path);
	return code;
}

rp_code catalogue_find(verify_subject *s, const char *id, const char *manifest, rp_error *err)
{
	char found[RP_HASH_HEX], wanted[RP_HASH_HEX];
	rp_code code = read_catalogue(s->v->o.catalog, &s->catalogue, err);
	if (code != RP_OK || s->catalogue == NULL)
		return code;
	s->entry = rp_catalog_find(s->catalogue, id);
	/* --identity is the person's own word */
	if (s->entry == NULL || s->v->o.identity != NULL || memcmp(s->entry->identity, s->identity, RP_HASH_BYTES) == 0)
		return RP_OK;
	return rp_fail(err, RP_HASH, "%s: its SHA-256 is %s, but the catalogue has %s for %s; if it is meant to differ, name it with --identity",
		manifest, rp_hex(found, s->identity, RP_HASH_BYTES), rp_hex(wanted, s->entry->identity, RP_HASH_BYTES), id);
}

static const rp_catalog_file *pinned(const verify_subject *s, const char *name)
{
	for (size_t i = 0; s->entry != NULL && i < s->entry->n_files; i++)
		if (strcmp(s->entry->files[i].path, name) == 0)
			return &s->entry->files[i];
	return NULL;
}

rp_code catalogue_check_index(const verify_subject *s, const char *name, const char *path, const char *text, size_t n, rp_error *err)
{
	const rp_catalog_file *file = pinned(s, name);
	unsigned char hash[RP_HASH_BYTES];
	char found[RP_HASH_HEX], wanted[RP_HASH_HEX];
	if (file == NULL || file->role != RP_ROLE_INDEX)
		return RP_OK;
	rp_sha256_once(text, n, hash);
	if (memcmp(hash, file->sha256, sizeof hash) == 0)
		return RP_OK;
	return rp_fail(err, RP_HASH, "%s: its SHA-256 is %s, but the catalogue has %s", path, rp_hex(found, hash, sizeof hash),
		rp_hex(wanted, file->sha256, sizeof hash));
}

rp_code catalogue_add(verify_subject *s, verify_item *item, const char *name, rp_error *err)
{
	const rp_catalog_file *file = pinned(s, name);
	const char *base = s->entry != NULL ? s->entry->base_url : NULL, *url = file != NULL ? file->url : NULL;
	if (file != NULL && !item->sha256_known) {
		memcpy(item->sha256, file->sha256, RP_HASH_BYTES);
		item->sha256_known = true;
		item->size = file->size;
		item->size_known = true;
	}
	if (url == NULL && base != NULL)
		url = rp_arena_printf(&s->arena, "%s%s", base, name);
	else if (url == NULL)
		return RP_OK;
	const char **sources = rp_arena_array(&s->arena, 1, sizeof *sources);
	if (url == NULL || sources == NULL)
		return rp_no_memory(err, 100, "a URL");
	sources[0] = url;
	item->sources = sources;
	item->n_sources = 1;
	return RP_OK;
}
