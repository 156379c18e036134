/* Making keys and signatures. */
#include "verify.h"

#include "sign/sign.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *folder_of(rp_arena *arena, const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash == NULL ? "." : rp_arena_strndup(arena, path, slash == path ? 1 : (size_t)(slash - path));
}

rp_code verify_signing_folders(verify_state *v, const char *const **folders, size_t *n, rp_error *err)
{
	const char *const *paths = v->o.keygen != NULL ? &v->o.keygen : v->parsed.operands.v;
	*n = v->o.keygen != NULL ? 1 : v->parsed.operands.n;
	const char **list = rp_arena_array(&v->parsed.arena, *n, sizeof *list);
	bool ok = list != NULL;
	for (size_t i = 0; ok && i < *n; i++)
		ok = (list[i] = folder_of(&v->parsed.arena, paths[i])) != NULL;
	*folders = list;
	return ok ? RP_OK : rp_no_memory(err, *n * sizeof *list, "a list of folders");
}

static rp_code told(verify_state *v, const rp_identity *id, const char *pub_path, const char *line, rp_error *err)
{
	if (!v->o.json) {
		rp_buf_addf(&v->out, "%s %.*s\n", id->participant, (int)strcspn(line, "\n"), line);
		return verify_written(v, err);
	}
	rp_jsonw w;
	verify_record(v, &w, "key");
	rp_jsonw_pair_str(&w, "path", v->o.keygen);
	rp_jsonw_pair_str(&w, "public_path", pub_path);
	rp_jsonw_pair_str(&w, "participant", id->participant);
	rp_jsonw_key(&w, "minisign");
	rp_jsonw_strn(&w, line, strcspn(line, "\n"));
	return verify_record_end(v, &w, err);
}

rp_code verify_keygen(verify_state *v, rp_error *err)
{
	rp_identity id;
	rp_buf pub;
	if (v->parsed.operands.n > 0)
		return rp_fail(err, RP_USAGE, "--keygen makes one key and takes no operands");
	char *pub_path = rp_asprintf("%s.pub", v->o.keygen);
	if (pub_path == NULL)
		return rp_no_memory(err, strlen(v->o.keygen), "a path");
	rp_buf_init(&pub, 0);
	rp_code code = rp_identity_new(RP_KEY_ED25519, &id, err);
	if (code == RP_OK)
		code = rp_identity_minisign_pub(&id, &pub, err);
	if (code == RP_OK)
		code = rp_identity_save(&id, v->o.keygen, (uint64_t)time(NULL) * 1000, err);
	if (code == RP_OK)
		code = rp_write_file(pub_path, pub.data, pub.len, 0644, err);
	if (code == RP_OK)
		code = told(v, &id, pub_path, strchr(pub.data, '\n') + 1, err);
	rp_identity_wipe(&id);
	rp_buf_free(&pub);
	free(pub_path);
	return code;
}

static rp_code sign_one(verify_state *v, const rp_identity *id, const char *path, rp_error *err)
{
	rp_buf sig;
	rp_error own = {0};
	char *out = rp_asprintf("%s.minisig", path);
	if (out == NULL)
		return rp_no_memory(err, strlen(path), "a path");
	rp_buf_init(&sig, 0);
	rp_code code = rp_minisign_sign(id, path, v->o.trusted_comment, (uint64_t)time(NULL), &sig, &own);
	if (code == RP_OK)
		code = rp_write_file(out, sig.data, sig.len, 0644, &own);
	rp_buf_free(&sig);
	rp_code result = code == RP_USAGE ? rp_fail(err, code, "%s", own.msg) : verify_verdict(v, "signed", out, code, own.msg, NULL, NULL, err);
	free(out);
	return result;
}

rp_code verify_sign(verify_state *v, rp_error *err)
{
	rp_identity id;
	if (v->parsed.operands.n == 0)
		return rp_fail(err, RP_USAGE, "--sign: name the files to sign");
	rp_code code = rp_identity_load(v->o.sign, &id, err);
	for (size_t i = 0; code == RP_OK && i < v->parsed.operands.n; i++)
		code = sign_one(v, &id, v->parsed.operands.v[i], err);
	rp_identity_wipe(&id);
	return code == RP_OK ? v->first : code;
}
