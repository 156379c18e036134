#include "scan.h"

#include <string.h>

void rp_merkle_root(unsigned char (*leaves)[RP_HASH_BYTES], size_t n, unsigned char out[RP_HASH_BYTES])
{
	if (n == 0) {
		rp_sha256_once("", 0, out);
		return;
	}
	unsigned char pair[2 * RP_HASH_BYTES];
	for (; n > 1; n = n / 2 + n % 2) {
		for (size_t i = 0; i < n; i += 2) {
			memcpy(pair, leaves[i], RP_HASH_BYTES);
			memcpy(pair + RP_HASH_BYTES, leaves[i + 1 < n ? i + 1 : i], RP_HASH_BYTES);
			rp_sha256_once(pair, sizeof pair, leaves[i / 2]);
		}
	}
	memcpy(out, leaves[0], RP_HASH_BYTES);
}
