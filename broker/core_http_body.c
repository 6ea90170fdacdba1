/*
 * Bodies that core takes in hand (process: core). They come from front as sealed memory, so that
 * what is judged cannot change any more and is what upstream will be given; nothing is copied.
 */
#include "broker/core_http.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/jcs.h"
#include "policy/webform.h"

#include "common/banned.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

bool
core_http_streamed(const struct core_http *h)
{
	return !h->in_hand && !h->hashed; /* of some its start was */
}

bool
core_http_hold(struct core_http *h, uint64_t most)
{
	struct core_run *run = h->from.run;

	if (run->held + most > CORE_HTTP_RUN_HELD || run->core->held + most > CORE_HTTP_HELD)
		return false;
	h->held = most;
	run->held += most;
	run->core->held += most;
	return true;
}

static int
sealed_check(int fd, uint64_t length, struct err *err)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & SEALS) != SEALS)
		return err_set(err, ERR_PROTOCOL, "a body that is not sealed");
	if (fstat(fd, &st) != 0 || st.st_size < 0 || (uint64_t)st.st_size != length)
		return err_set(err, ERR_PROTOCOL, "a body that has not the %llu bytes it should",
		    (unsigned long long)length);
	return 0;
}

int
core_http_body_take(struct core_http *h, int fd, uint64_t length, struct err *err)
{
	AUTO_FD int own = fd;
	int rc = sealed_check(own, length, err);
	void *p;

	if (rc != 0)
		return rc;
	h->start = h->needed == 3 && !(h->body == CORE_BODY_LENGTH && length == h->length);
	if (length > h->held ||
	    (h->body == CORE_BODY_LENGTH && (h->start ? length > h->length : length != h->length)))
		return err_set(err, ERR_PROTOCOL, "a body of %llu bytes was not asked for",
		    (unsigned long long)length);
	if (length != 0) {
		p = mmap(NULL, length, PROT_READ, MAP_SHARED, own, 0);
		if (p == MAP_FAILED)
			return err_sys(err, ERR_SYSTEM, errno, "mapping a body");
		h->bytes = str_mem(p, length);
	}
	h->fd = TAKE_FD(own);
	if (h->start)
		return 0;
	h->length = length;
	h->in_hand = h->have_sha = true;
	h->sha = hash_sha256(h->bytes);
	return 0;
}

int
core_http_body_memfd(struct str bytes, int *ret_fd, struct err *err)
{
	AUTO_FD int fd = memfd_create("body", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "memory for a body");
	while (bytes.n != 0) {
		ssize_t n = write(fd, bytes.p, bytes.n);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_sys(err, ERR_SYSTEM, errno, "memory for a body");
		bytes.p += n;
		bytes.n -= (size_t)n;
	}
	if (fcntl(fd, F_ADD_SEALS, SEALS) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sealing a body");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

void
core_http_body_replace(struct core_http *h, struct str bytes)
{
	if (h->fd >= 0) {
		if (h->bytes.n != 0)
			(void)munmap((void *)(uintptr_t)h->bytes.p, h->bytes.n);
		(void)close(h->fd);
	}
	h->fd = -1;
	buf_reset(&h->content);
	buf_put_str(&h->content, bytes);
	h->bytes = buf_str(&h->content);
	h->body = CORE_BODY_INLINE;
	h->length = bytes.n;
	h->in_hand = h->have_sha = true;
	h->sha = hash_sha256(h->bytes);
}

/* --- for the digest -------------------------------------------------------------- */

struct str
core_http_boundary(struct str type)
{
	struct media_type m = media_type_parse(type);

	return m.media == MEDIA_MULTIPART && !m.odd ? m.boundary : STR_NONE;
}

static struct str
boundary_of(const struct core_http *h)
{
	const struct http_field *f =
	    h->req != NULL ? http_field_find(h->req->fields, h->req->nfields, "Content-Type")
			   : NULL;

	return f != NULL ? core_http_boundary(f->value) : STR_NONE;
}

/* Each run of bytes between two boundaries with its length: no content can stand for one. */
static struct hash
hash_between(struct str s, struct str boundary)
{
	struct hash_ctx *ctx = hash_begin();

	for (;;) {
		const char *at = s.n != 0 ? memmem(s.p, s.n, boundary.p, boundary.n) : NULL;
		size_t n = at != NULL ? (size_t)(at - s.p) : s.n;
		AUTO_BUF struct buf len = BUF(8);

		buf_u64(&len, n);
		hash_add(ctx, len.p, len.n);
		if (n != 0)
			hash_add(ctx, s.p, n);
		if (at == NULL)
			return hash_end(ctx);
		s = str_mem(at + boundary.n, s.n - n - boundary.n);
	}
}

bool
core_http_by_facts(const struct core_http *h)
{
	return h->view.api == HTTP_API_GIT && h->facts != NULL && h->facts->status == CORE_FACTS_OK;
}

/* A push's commands name by their ids all that is pushed; git packs it anew at each try. */
static void
put_facts(const struct core_http *h, struct buf *b)
{
	const struct json *g = json_get(json_root(h->facts->doc), "git");
	static const char *const keys[] = {"commands", "options"};

	buf_u8(b, 3);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		AUTO_BUF struct buf text = BUF(FACTS_JSON_MAX);
		struct err err;
		struct jcs j;

		jcs_init(&j, &text);
		if (json_get(g, keys[i]) != NULL)
			(void)jcs_value(&j, NULL, json_get(g, keys[i]), &err);
		buf_lstr(b, buf_str(&text));
	}
}

void
core_http_body_put(const struct core_http *h, struct buf *b)
{
	struct str boundary = boundary_of(h);
	struct hash sha = h->sha;

	if (core_http_by_facts(h)) {
		put_facts(h, b);
		return;
	}

	if (h->aws != NULL && h->aws->read) {
		buf_u8(b, 4);
		buf_u64(b, h->aws->content.n);
		buf_put(b, h->aws->content_sha.b, HASH_LEN);
		return;
	}
	if (!h->have_sha) {
		buf_u8(b, 0);
		buf_u64(b, h->length);
		return;
	}
	if (h->in_hand && boundary.n != 0) {
		sha = hash_between(h->bytes, boundary);
		buf_u8(b, 2);
	} else {
		buf_u8(b, 1);
		buf_u64(b, h->length);
	}
	buf_put(b, sha.b, HASH_LEN);
}
