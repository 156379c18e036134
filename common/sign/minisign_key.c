/* Secret keys of minisign and signify, and minisign's encryption of them.
 *
 * minisign, 158 bytes: the letters of signature, key derivation and checksum ("Ed", "Sc" or zeros, "B2"); salt; two limits of the
 * derivation; then number of the key, key and checksum, over which the output of scrypt lies as a one-time pad. The checksum is
 * BLAKE2b-256 of letters, number and key; keys that are not encrypted have none.
 * signify, 104 bytes: letters of signature and key derivation ("Ed", "BK"); rounds of bcrypt_pbkdf, 0 when there is no passphrase; salt;
 * the first 8 bytes of the key's SHA-512; number of the key; key. */
#include "sign_impl.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

enum { SALT = 32, KEY = 64, SUM = 32, SEALED = RP_KEY_ID + KEY + SUM };

typedef struct minisign_secret {
	unsigned char signature[2], derivation[2], checksum[2], salt[SALT], ops[8], memory[8], sealed[SEALED];
} minisign_secret;

typedef struct signify_secret {
	unsigned char signature[2], derivation[2], rounds[4], salt[16], checksum[8], number[RP_KEY_ID], key[KEY];
} signify_secret;

_Static_assert(sizeof(minisign_secret) == 158 && sizeof(signify_secret) == 104, "keys are read as they are stored");

static const uint64_t most_ops = crypto_pwhash_scryptsalsa208sha256_OPSLIMIT_SENSITIVE;
static const uint64_t most_memory = crypto_pwhash_scryptsalsa208sha256_MEMLIMIT_SENSITIVE;

/* A number and a key with its public half, which must belong to it. */
static rp_code take(const char *path, const unsigned char *number, const unsigned char key[KEY], rp_identity *id, rp_error *err)
{
	sign_set_ed25519(id, key);
	memcpy(id->key.id, number, RP_KEY_ID);
	if (sodium_memcmp(id->secret, key, KEY) != 0)
		return rp_fail(err, RP_FORMAT, "%s: the secret key is damaged: its two halves do not belong together", path);
	return sign_set_participant(id, err);
}

/* Lay scrypt's output over the sealed part. False: there is not enough memory for it. */
static bool lay_pad(minisign_secret *m, const char *passphrase)
{
	unsigned char pad[SEALED];
	bool ok = crypto_pwhash_scryptsalsa208sha256(pad, sizeof pad, passphrase, strlen(passphrase), m->salt, rp_le64(m->ops),
		(size_t)rp_le64(m->memory)) == 0;
	for (size_t i = 0; ok && i < SEALED; i++)
		m->sealed[i] ^= pad[i];
	sodium_memzero(pad, sizeof pad);
	return ok;
}

static void sum_of(const minisign_secret *m, unsigned char out[SUM])
{
	crypto_generichash_state h;
	crypto_generichash_init(&h, NULL, 0, SUM);
	crypto_generichash_update(&h, m->signature, sizeof m->signature);
	crypto_generichash_update(&h, m->sealed, RP_KEY_ID + KEY);
	crypto_generichash_final(&h, out, SUM);
}

static rp_code unseal(const char *path, minisign_secret *m, const rp_passphrase *passphrase, rp_error *err)
{
	char text[RP_PASSPHRASE_MAX];
	unsigned char sum[SUM];
	if (memcmp(m->derivation, "Sc", 2) != 0 || memcmp(m->checksum, "B2", 2) != 0)
		return rp_fail(err, RP_UNSUPPORTED, "%s: is encrypted in a way that is not minisign's (scrypt, BLAKE2b)", path);
	if (rp_le64(m->ops) > most_ops || rp_le64(m->memory) > most_memory)
		return rp_fail(err, RP_UNSUPPORTED, "%s: wants more work or memory for its passphrase than minisign ever asks for", path);
	if (passphrase == NULL)
		return rp_fail(err, RP_UNSUPPORTED, "%s: the key is encrypted, and there is no passphrase", path);
	rp_code code = passphrase->ask(passphrase->context, path, text, err);
	if (code == RP_OK && !lay_pad(m, text))
		code = rp_fail(err, RP_NO_MEMORY, "%s: too little memory for its passphrase: scrypt wants %llu MiB", path,
			(unsigned long long)(rp_le64(m->memory) >> 20));
	if (code == RP_OK) {
		sum_of(m, sum);
		if (sodium_memcmp(sum, m->sealed + RP_KEY_ID + KEY, SUM) != 0)
			code = rp_fail(err, RP_FORMAT, "%s: the passphrase is wrong, or the key is damaged", path);
	}
	sodium_memzero(text, sizeof text);
	return code;
}

static rp_code read_minisign(const char *path, minisign_secret *m, const rp_passphrase *passphrase, rp_identity *id, rp_error *err)
{
	rp_code code = m->derivation[0] != 0 || m->derivation[1] != 0 ? unseal(path, m, passphrase, err) : RP_OK;
	id->form = RP_SECRET_MINISIGN;
	return code == RP_OK ? take(path, m->sealed, m->sealed + RP_KEY_ID, id, err) : code;
}

static rp_code read_signify(const char *path, const signify_secret *s, rp_identity *id, rp_error *err)
{
	static const unsigned char none[4];
	unsigned char sum[crypto_hash_sha512_BYTES];
	if (memcmp(s->derivation, "BK", 2) != 0)
		return rp_fail(err, RP_UNSUPPORTED, "%s: a signify key with another key derivation than bcrypt_pbkdf", path);
	if (memcmp(s->rounds, none, sizeof none) != 0)
		return rp_fail(err, RP_UNSUPPORTED, "%s: the key is encrypted with a passphrase as signify does it (bcrypt_pbkdf), which is not "
			"supported; signify -G -n makes one without", path);
	crypto_hash_sha512(sum, s->key, KEY);
	id->form = RP_SECRET_SIGNIFY;
	if (sodium_memcmp(sum, s->checksum, sizeof s->checksum) != 0)
		return rp_fail(err, RP_FORMAT, "%s: the secret key is damaged: its checksum does not match", path);
	return take(path, s->number, s->key, id, err);
}

rp_code sign_read_numbered(const char *path, const char *text, size_t n, const rp_passphrase *passphrase, rp_identity *id, rp_error *err)
{
	minisign_secret m;
	signify_secret s;
	const char *line = n > 0 ? memchr(text, '\n', n) : NULL;
	rp_code code = RP_FORMAT;
	size_t rest = line != NULL ? n - (size_t)(++line - text) : 0, len = 0;
	while (len < rest && line[len] != '\r' && line[len] != '\n')
		len++;
	if (line != NULL && rp_base64_exact(RP_BASE64, line, len, &m, sizeof m) && memcmp(m.signature, "Ed", 2) == 0)
		code = read_minisign(path, &m, passphrase, id, err);
	else if (line != NULL && rp_base64_exact(RP_BASE64, line, len, &s, sizeof s) && memcmp(s.signature, "Ed", 2) == 0)
		code = read_signify(path, &s, id, err);
	else
		rp_fail(err, RP_FORMAT, "%s: expected a secret key: an identity file, minisign's, signify's, or PEM", path);
	sodium_memzero(&m, sizeof m);
	sodium_memzero(&s, sizeof s);
	return code;
}

static void put_le64(unsigned char out[8], uint64_t v)
{
	for (size_t i = 0; i < 8; i++)
		out[i] = (unsigned char)(v >> 8 * i);
}

/* With as much memory as minisign takes, or else half of it and half the work, and so on. */
static rp_code seal(minisign_secret *m, const char *passphrase, rp_error *err)
{
	uint64_t ops = most_ops, memory = most_memory;
	randombytes_buf(m->salt, SALT);
	for (; memory >= crypto_pwhash_scryptsalsa208sha256_MEMLIMIT_INTERACTIVE; memory /= 2, ops /= 2) {
		put_le64(m->ops, ops);
		put_le64(m->memory, memory);
		if (lay_pad(m, passphrase))
			return RP_OK;
	}
	return rp_fail(err, RP_NO_MEMORY, "too little memory to encrypt a key: scrypt wants at least 16 MiB");
}

rp_code rp_identity_save_encrypted(const rp_identity *id, const char *path, const char *passphrase, rp_error *err)
{
	minisign_secret m = {.signature = {'E', 'd'}, .derivation = {'S', 'c'}, .checksum = {'B', '2'}};
	rp_buf text;
	if (id->key.kind != RP_KEY_ED25519)
		return rp_fail(err, RP_UNSUPPORTED, "minisign has Ed25519 keys only, and this is another");
	memcpy(m.sealed, id->key.id, RP_KEY_ID);
	memcpy(m.sealed + RP_KEY_ID, id->secret, KEY);
	sum_of(&m, m.sealed + RP_KEY_ID + KEY);
	rp_code code = seal(&m, passphrase, err);
	rp_buf_init(&text, 0);
	rp_buf_adds(&text, "untrusted comment: minisign encrypted secret key\n");
	rp_base64_append(RP_BASE64, &m, sizeof m, &text);
	if (!rp_buf_addc(&text, '\n') && code == RP_OK)
		code = rp_no_memory(err, sizeof m, "a key");
	if (code == RP_OK)
		code = sign_write_secret(path, text.data, err);
	rp_buf_free(&text);
	sodium_memzero(&m, sizeof m);
	return code;
}
