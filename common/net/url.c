/* URLs, by libcurl's parser so that what is checked is what is used. */
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/net.h"

static CURLU *parsed(const char *url)
{
	CURLU *u = curl_url();
	if (u != NULL && curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK)
		return u;
	curl_url_cleanup(u);
	return NULL;
}

/* Freed with curl_free; NULL when absent. */
static char *part(CURLU *u, CURLUPart what)
{
	char *text = NULL;
	return curl_url_get(u, what, &text, CURLU_DEFAULT_PORT) == CURLUE_OK ? text : NULL;
}

bool rp_net_is_http(const char *url)
{
	return strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0;
}

bool rp_net_is_usable(const char *url)
{
	CURLU *u = rp_net_is_http(url) ? parsed(url) : NULL;
	char *host = u != NULL ? part(u, CURLUPART_HOST) : NULL;
	bool usable = host != NULL && *host != '\0';
	curl_free(host);
	curl_url_cleanup(u);
	return usable;
}

static bool same_part(CURLU *a, CURLU *b, CURLUPart what)
{
	char *x = part(a, what), *y = part(b, what);
	bool same = x != NULL && y != NULL && strcasecmp(x, y) == 0;
	curl_free(x);
	curl_free(y);
	return same;
}

bool rp_net_same_origin(const char *a, const char *b)
{
	CURLU *x = parsed(a), *y = parsed(b);
	bool same = x != NULL && y != NULL && same_part(x, y, CURLUPART_SCHEME) && same_part(x, y, CURLUPART_HOST) &&
		same_part(x, y, CURLUPART_PORT);
	curl_url_cleanup(x);
	curl_url_cleanup(y);
	return same;
}

static bool is_loopback(const char *host)
{
	static const char digits[] = "0123456789.";
	return strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
		(strncmp(host, "127.", 4) == 0 && strspn(host, digits) == strlen(host));
}

bool rp_net_is_private(const char *url)
{
	CURLU *u = parsed(url);
	if (u == NULL)
		return false;
	char *scheme = part(u, CURLUPART_SCHEME), *host = part(u, CURLUPART_HOST);
	bool fit = scheme != NULL && host != NULL && (strcasecmp(scheme, "https") == 0 || is_loopback(host));
	curl_free(scheme);
	curl_free(host);
	curl_url_cleanup(u);
	return fit;
}

bool rp_net_has_userinfo(const char *url)
{
	CURLU *u = parsed(url);
	char *user = u != NULL ? part(u, CURLUPART_USER) : NULL, *password = u != NULL ? part(u, CURLUPART_PASSWORD) : NULL;
	bool has = user != NULL || password != NULL;
	curl_free(user);
	curl_free(password);
	curl_url_cleanup(u);
	return has;
}

static char *copied(char *text)
{
	char *copy = text != NULL ? rp_strdup(text) : NULL;
	curl_free(text);
	return copy;
}

char *rp_net_shown(const char *url)
{
	static const CURLUPart hidden[] = {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_QUERY, CURLUPART_FRAGMENT};
	char clean[900];
	CURLU *u = parsed(url);
	if (u == NULL) {
		size_t n = strcspn(url, "?#");
		return memchr(url, '@', n) != NULL ? rp_strdup("(a URL)") : rp_strdup(rp_show(clean, sizeof clean, url, n));
	}
	for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
		curl_url_set(u, hidden[i], NULL, 0);
	char *text = NULL;
	if (curl_url_get(u, CURLUPART_URL, &text, 0) != CURLUE_OK)
		text = NULL;
	curl_url_cleanup(u);
	return copied(text);
}

char *rp_net_join(const char *base, const char *relative)
{
	CURLU *u = parsed(base);
	char *text = NULL;
	if (u == NULL || curl_url_set(u, CURLUPART_URL, relative, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK ||
		curl_url_get(u, CURLUPART_URL, &text, 0) != CURLUE_OK)
		text = NULL;
	curl_url_cleanup(u);
	return copied(text);
}

char *rp_net_origin(const char *url)
{
	static const CURLUPart hidden[] = {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_QUERY, CURLUPART_FRAGMENT};
	CURLU *u = parsed(url);
	char *text = NULL;
	for (size_t i = 0; u != NULL && i < sizeof hidden / sizeof *hidden; i++)
		curl_url_set(u, hidden[i], NULL, 0);
	if (u == NULL || curl_url_set(u, CURLUPART_PATH, "/", 0) != CURLUE_OK || curl_url_get(u, CURLUPART_URL, &text, 0) != CURLUE_OK)
		text = NULL;
	curl_url_cleanup(u);
	if (text != NULL && text[0] != '\0' && text[strlen(text) - 1] == '/')
		text[strlen(text) - 1] = '\0';
	return copied(text);
}
