/* The catalogue: any bytes; what is accepted obeys its own rules. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/net.h"
#include "store/catalog.h"
#include "store/pieces.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	rp_catalog *c;
	rp_error e;
	if (rp_catalog_parse("c.json", (const char *)data, n, "https://site.example", &c, &e) != RP_OK)
		return 0;
	for (size_t i = 0; i < c->n_models; i++) {
		const rp_catalog_model *m = &c->models[i];
		if (!rp_id_valid(m->id) || rp_catalog_find(c, m->id) != m)
			abort();
		for (size_t k = 0; k < m->n_files; k++) {
			const rp_catalog_file *f = &m->files[k];
			if (!rp_piece_name_valid(f->path) || f->size == 0 || f->size > RP_MAX_PINNED_BYTES || (f->url != NULL && !rp_net_is_private(f->url)))
				abort();
		}
	}
	rp_catalog_free(c);
	return 0;
}
