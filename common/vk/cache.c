/* The pipeline cache on disk. The file is untrusted: drivers have crashed on damaged caches, so its size, owner, header and
 * digest are checked before a driver sees it, and anything odd means an empty cache, never an error. */
#include "hash/hash.h"
#include "vk/private.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* File: magic, vendor, device, driver version (u32), uuid[16], tag[96], data length (u64), SHA-256 of all before it and of the
 * data, data. Numbers are little-endian. */
enum { MAGIC_BYTES = 8, TAG_BYTES = 96, HEADER_BYTES = MAGIC_BYTES + 12 + 16 + TAG_BYTES + 8, DIGEST_BYTES = RP_HASH_BYTES };
enum { CACHE_LARGEST = 64 << 20 };
static const char magic[MAGIC_BYTES] = { 'R', 'P', 'V', 'K', 'P', 'C', '0', '1' };

static void put32(unsigned char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (unsigned char)(v >> 8 * i);
}

static void header(const rp_vk *vk, uint64_t n, unsigned char out[HEADER_BYTES])
{
	const rp_vk_info *f = &vk->phys.info;
	unsigned char *p = out;
	memcpy(p, magic, MAGIC_BYTES), p += MAGIC_BYTES;
	put32(p, f->vendor_id), p += 4;
	put32(p, f->device_id), p += 4;
	put32(p, f->driver_version), p += 4;
	memcpy(p, f->cache_uuid, 16), p += 16;
	memcpy(p, vk->cache_tag, TAG_BYTES), p += TAG_BYTES;
	put32(p, (uint32_t)n), put32(p + 4, (uint32_t)(n >> 32));
}

static bool digest(const unsigned char head[HEADER_BYTES], const void *data, size_t n, unsigned char out[DIGEST_BYTES])
{
	rp_sha256 *h = NULL;
	if (rp_sha256_new(&h, NULL) != RP_OK)
		return false;
	rp_sha256_update(h, head, HEADER_BYTES);
	rp_sha256_update(h, data, n);
	rp_sha256_final(h, out);
	rp_sha256_free(h);
	return true;
}

/* A file another user could have written is not ours to trust. */
static bool read_file(const char *path, rp_buf *b)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	if (fd < 0)
		return false;
	bool ok = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
		st.st_size > 0 && st.st_size <= CACHE_LARGEST && rp_buf_reserve(b, (size_t)st.st_size);
	while (ok && b->len < (size_t)st.st_size) {
		ssize_t n = read(fd, b->data + b->len, (size_t)st.st_size - b->len);
		if (n <= 0)
			ok = false;
		else
			b->len += (size_t)n;
	}
	close(fd);
	return ok;
}

/* The driver's own header (VkPipelineCacheHeaderVersionOne) must name this device too. */
static bool driver_header_fits(const rp_vk *vk, const unsigned char *data, size_t n)
{
	const rp_vk_info *f = &vk->phys.info;
	return n >= 32 && rp_le32(data) >= 32 && rp_le32(data) <= n && rp_le32(data + 4) == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
		rp_le32(data + 8) == f->vendor_id && rp_le32(data + 12) == f->device_id &&
		memcmp(data + 16, f->cache_uuid, sizeof f->cache_uuid) == 0;
}

static bool load(rp_vk *vk, rp_buf *b, const unsigned char **data, size_t *n)
{
	const size_t before = HEADER_BYTES + DIGEST_BYTES;
	if (!read_file(vk->cache_path, b) || b->len <= before)
		return false;
	const unsigned char *file = (const unsigned char *)b->data;
	unsigned char want[HEADER_BYTES], sum[DIGEST_BYTES];
	*data = file + before;
	*n = b->len - before;
	header(vk, *n, want);
	if (memcmp(file, want, HEADER_BYTES) != 0 || !digest(want, *data, *n, sum) ||
		memcmp(file + HEADER_BYTES, sum, DIGEST_BYTES) != 0 || !driver_header_fits(vk, *data, *n))
		return false;
	memcpy(vk->cache_digest, sum, DIGEST_BYTES);
	return true;
}

static char *path_of(const rp_vk *vk, const char *dir)
{
	const rp_vk_info *f = &vk->phys.info;
	char uuid[33];
	for (int i = 0; i < 16; i++)
		snprintf(uuid + 2 * i, 3, "%02x", f->cache_uuid[i]);
	return rp_asprintf("%s/vulkan-%04x-%04x-%s.bin", dir, f->vendor_id, f->device_id, uuid);
}

void rp_vk_cache_open(rp_vk *vk, const char *dir, const char *tag)
{
	if (tag != NULL)
		snprintf(vk->cache_tag, sizeof vk->cache_tag, "%s", tag);
	vk->cache_path = dir != NULL ? path_of(vk, dir) : NULL;
	if (dir != NULL)
		mkdir(dir, 0700); /* when that fails, so does reading and writing in it, which is no harm */
	rp_buf b;
	rp_buf_init(&b, 0);
	const unsigned char *data = NULL;
	size_t n = 0;
	VkPipelineCacheCreateInfo info = { .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO };
	if (vk->cache_path != NULL && load(vk, &b, &data, &n)) {
		info.initialDataSize = n;
		info.pInitialData = data;
		vk->cache_loaded = true;
	}
	if (vk->CreatePipelineCache(vk->device, &info, NULL, &vk->cache) != VK_SUCCESS)
		vk->cache = VK_NULL_HANDLE; /* works without */
	rp_buf_free(&b);
}

static void save(rp_vk *vk)
{
	size_t n = 0;
	if (vk->GetPipelineCacheData(vk->device, vk->cache, &n, NULL) != VK_SUCCESS || n == 0 || n > CACHE_LARGEST / 2)
		return;
	unsigned char *file = rp_alloc(HEADER_BYTES + DIGEST_BYTES + n);
	if (file == NULL)
		return;
	unsigned char *data = file + HEADER_BYTES + DIGEST_BYTES;
	if (vk->GetPipelineCacheData(vk->device, vk->cache, &n, data) == VK_SUCCESS) {
		header(vk, n, file);
		if (digest(file, data, n, file + HEADER_BYTES) && memcmp(file + HEADER_BYTES, vk->cache_digest, DIGEST_BYTES) != 0)
			rp_write_file(vk->cache_path, file, HEADER_BYTES + DIGEST_BYTES + n, 0600, NULL); /* not worth an error */
	}
	free(file);
}

void rp_vk_cache_close(rp_vk *vk)
{
	if (vk->cache == VK_NULL_HANDLE)
		return;
	if (vk->cache_path != NULL && !vk->lost)
		save(vk);
	vk->DestroyPipelineCache(vk->device, vk->cache, NULL);
}
