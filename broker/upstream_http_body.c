/*
 * Bodies of requests. Runs in upstream. Front, where a streamed body comes from, parses hostile
 * bytes and may be taken over: length, hash and placeholders are checked here, where the bytes
 * leave, and a body that turns out not to be the leased one is cut off before its end.
 */
#include "broker/upstream_http_body.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "broker/upstream_rechunk.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define PLACEHOLDER "cfph_"
#define PLACEHOLDER_LEN 26

struct body {
	enum lease_body kind;
	uint64_t length; /* of LEASE_CHUNKED, LEASE_UPGRADE: at most */
	int fd;
	struct buf data; /* inline, or what came from front and has not gone */
	size_t at;
	uint64_t received, granted, sent;
	bool bound, last, stopped;
	struct hash want;
	struct hash_ctx *came, *went; /* came: of a streamed bound body */
	struct buf frame;	      /* a chunk that has not gone */
	size_t frame_at;
	bool ended; /* the last chunk has been written */
	size_t prefix,
	    letters;	       /* of a placeholder so far; letters: 1 more than there are, 0 none */
	struct rechunk *again; /* NULL: it goes out as it came */
	uint64_t again_length; /* bytes on the wire */
};

/* --- making ---------------------------------------------------------------------- */

static int
hash_file(const struct body *b, struct hash *ret, struct err *err)
{
	struct hash_ctx *h = hash_begin();
	AUTO_BUF struct buf chunk = BUF(65536);
	uint8_t *p = buf_grow(&chunk, chunk.max);
	uint64_t off = 0;
	ssize_t n;

	while ((n = pread(b->fd, p, chunk.max, (off_t)off)) > 0) {
		hash_add(h, p, (size_t)n);
		off += (uint64_t)n;
	}
	*ret = hash_end(h);
	return n < 0 ? err_sys(err, ERR_SYSTEM, errno, "reading the body") : 0;
}

static int
check_sealed(const struct body *b, struct err *err)
{
	struct stat st;
	int seals = b->fd < 0 ? -1 : fcntl(b->fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(b->fd, &st) != 0)
		return err_set(err, ERR_CONFIG, "the body is not sealed");
	if ((uint64_t)st.st_size != b->length)
		return err_set(err, ERR_CONFIG, "the sealed body has %llu bytes, leased are %llu",
		    (unsigned long long)st.st_size, (unsigned long long)b->length);
	return 0;
}

/* cfph_ and 26 of [a-z2-7]. No '_' is among those, so one count of each is enough. */
static bool
placeholder_ends(struct body *b, char c)
{
	bool letter = (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7');

	b->letters = letter && b->letters != 0 ? b->letters + 1 : 0;
	if (b->letters == PLACEHOLDER_LEN + 1)
		return true;
	b->prefix = c == PLACEHOLDER[b->prefix] ? b->prefix + 1 : c == PLACEHOLDER[0] ? 1 : 0;
	if (b->prefix == sizeof(PLACEHOLDER) - 1) {
		b->prefix = 0;
		b->letters = 1;
	}
	return false;
}

/* The start of a streamed body, as core judged it: front sends only what is behind it. */
static int
take_start(struct body *b, struct err *err)
{
	int seals = fcntl(b->fd, F_GET_SEALS);
	struct stat st;
	uint8_t *p;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(b->fd, &st) != 0)
		return err_set(err, ERR_CONFIG, "the start of the body is not sealed");
	p = st.st_size <= (off_t)BODY_CREDIT ? buf_grow(&b->data, (size_t)st.st_size) : NULL;
	if (p == NULL || (uint64_t)st.st_size > b->length || b->bound)
		return err_set(err, ERR_CONFIG, "the start of the body is larger than it may be");
	if (pread(b->fd, p, (size_t)st.st_size, 0) != st.st_size)
		return err_sys(err, ERR_SYSTEM, errno, "reading the start of the body");
	for (size_t i = 0; i < b->data.n; i++)
		if (placeholder_ends(b, (char)b->data.p[i]))
			return err_set(err, ERR_STATE, "placeholder");
	b->received = b->granted = b->data.n;
	return 0;
}

int
body_hash_here(const struct body *b, struct hash *ret, struct err *err)
{
	if (b->kind == LEASE_SEALED)
		return hash_file(b, ret, err);
	*ret = hash_sha256(buf_str(&b->data));
	return 0;
}

void
body_rechunk(struct body *b, struct rechunk *r, uint64_t wire_length)
{
	b->again = r;
	b->again_length = wire_length;
}

/* What is here already is held against the hash before any of it goes. */
static int
check_here(struct body *b, struct err *err)
{
	struct hash h = {{0}};
	int rc = b->kind == LEASE_SEALED ? check_sealed(b, err) : 0;

	if (b->fd >= 0 && body_is_streamed(b))
		return take_start(b, err);

	if (rc != 0 || !b->bound || body_is_streamed(b))
		return rc;
	rc = body_hash_here(b, &h, err);
	if (rc == 0 && !hash_eq(&h, &b->want))
		rc = err_set(err, ERR_STATE, "the body is not the one that was leased");
	return rc;
}

int
body_new(const struct upstream_lease *l, int fd, struct body **ret, struct err *err)
{
	struct body *b = xcalloc(1, sizeof(*b));
	int rc;

	b->kind = l->body;
	b->length = l->length;
	b->fd = fd;
	b->bound = l->bound;
	b->want = l->sha256;
	b->went = hash_begin();
	/* One frame of front may be on top of what waits. */
	buf_init(&b->data, body_is_streamed(b) ? 2 * BODY_CREDIT : l->content.n);
	buf_init(&b->frame, BODY_CHUNK + 64);
	buf_put_str(&b->data, l->content);
	if (b->bound && body_is_streamed(b))
		b->came = hash_begin();
	rc = check_here(b, err);
	if (rc != 0) {
		body_free(b);
		return rc;
	}
	*ret = b;
	return 0;
}

static void
drop_hash(struct hash_ctx *h)
{
	if (h != NULL)
		(void)hash_end(h);
}

void
body_free(struct body *b)
{
	if (b == NULL)
		return;
	cleanup_close_fd(&b->fd);
	drop_hash(TAKE_PTR(b->came));
	drop_hash(TAKE_PTR(b->went));
	buf_free(&b->data);
	buf_free(&b->frame);
	rechunk_free(b->again);
	free(b);
}

bool
body_is_streamed(const struct body *b)
{
	return b->kind == LEASE_STREAM || b->kind == LEASE_CHUNKED || b->kind == LEASE_UPGRADE;
}

bool
body_is_whole(const struct body *b)
{
	if (b->again != NULL)
		return rechunk_ended(b->again);
	if (b->kind == LEASE_CHUNKED)
		return b->ended && b->frame_at == b->frame.n;
	return b->sent == b->length;
}

uint64_t
body_wire_length(const struct body *b)
{
	if (b->kind == LEASE_UPGRADE)
		return 0;
	if (b->again != NULL)
		return b->again_length;
	return b->kind == LEASE_CHUNKED ? UINT64_MAX : b->length;
}

void
body_stop(struct body *b)
{
	b->stopped = true;
}

uint64_t
body_sent(struct body *b, struct hash *ret)
{
	*ret = hash_end(TAKE_PTR(b->went));
	return b->sent;
}

/* --- from front ------------------------------------------------------------------ */

static int
check_ended(struct body *b, struct err *err)
{
	struct hash h;

	if (b->kind == LEASE_STREAM && b->received != b->length)
		return err_set(err, ERR_STATE, "the body has %llu bytes, leased are %llu",
		    (unsigned long long)b->received, (unsigned long long)b->length);
	if (!b->bound)
		return 0;
	h = hash_end(TAKE_PTR(b->came));
	if (!hash_eq(&h, &b->want))
		return err_set(err, ERR_STATE, "the body is not the one that was leased");
	return 0;
}

int
body_take(struct body *b, bool last, struct str bytes, struct err *err)
{
	int rc = 0;

	if (!body_is_streamed(b) || b->last || bytes.n > b->granted - b->received)
		return err_set(
		    err, ERR_PROTOCOL, "%zu bytes of body that nobody asked for", bytes.n);
	if (b->stopped)
		return 0; /* on their way when the answer came */
	b->received += bytes.n;
	if (b->received > b->length)
		return err_set(err, ERR_STATE, "the body has more than the %llu bytes leased",
		    (unsigned long long)b->length);
	for (size_t i = 0; i < bytes.n; i++)
		if (placeholder_ends(b, bytes.p[i]))
			return err_set(err, ERR_STATE, "placeholder");
	if (b->came != NULL && bytes.n != 0)
		hash_add(b->came, bytes.p, bytes.n);
	b->last = last;
	if (last)
		rc = check_ended(b, err);
	buf_put_str(&b->data, bytes);
	return rc;
}

uint32_t
body_credit(struct body *b)
{
	uint64_t waiting = b->granted - b->received + (b->data.n - b->at), more;

	if (!body_is_streamed(b) || b->last || b->stopped || waiting > BODY_CREDIT / 2)
		return 0;
	more = BODY_CREDIT - waiting;
	b->granted += more;
	return (uint32_t)more;
}

/* --- to the server --------------------------------------------------------------- */

/* Content that may go now. The last byte of a bound body waits for the hash. */
static size_t
ready(const struct body *b)
{
	size_t n = b->data.n - b->at;

	return b->bound && !b->last && body_is_streamed(b) && n != 0 ? n - 1 : n;
}

static void
consume(struct body *b, const void *p, size_t n)
{
	if (n != 0)
		hash_add(b->went, p, n);
	b->sent += n;
}

static size_t
take_data(struct body *b, void *to, size_t room)
{
	size_t n = ready(b) < room ? ready(b) : room;

	if (n == 0)
		return 0;
	memcpy(to, b->data.p + b->at, n);
	b->at += n;
	consume(b, to, n);
	if (b->at >= 65536 || b->at == b->data.n) {
		buf_drop(&b->data, b->at);
		b->at = 0;
	}
	return n;
}

static int
read_file(struct body *b, void *to, size_t room, size_t *ret_n, struct err *err)
{
	uint64_t left = b->length - b->sent;
	ssize_t n;

	do
		n = pread(b->fd, to, left < room ? (size_t)left : room, (off_t)b->sent);
	while (n < 0 && errno == EINTR);
	if (n < 0 || (n == 0 && left != 0))
		return err_sys(err, ERR_SYSTEM, n < 0 ? errno : EIO, "reading the body");
	consume(b, to, (size_t)n);
	*ret_n = (size_t)n;
	return n == 0 ? BODY_END : BODY_MORE;
}

/* RFC 9112 section 7.1. */
static void
next_chunk(struct body *b)
{
	uint8_t content[BODY_CHUNK];
	size_t n = take_data(b, content, sizeof(content));

	buf_reset(&b->frame);
	b->frame_at = 0;
	if (n != 0) {
		buf_printf(&b->frame, "%zx\r\n", n);
		buf_put(&b->frame, content, n);
		buf_put_z(&b->frame, "\r\n");
	} else if (b->last && !b->ended) {
		b->ended = true;
		buf_put_z(&b->frame, "0\r\n\r\n");
	}
}

static int
read_chunks(struct body *b, void *to, size_t room, size_t *ret_n)
{
	size_t n;

	if (b->frame_at == b->frame.n)
		next_chunk(b);
	n = b->frame.n - b->frame_at < room ? b->frame.n - b->frame_at : room;
	if (n == 0)
		return b->ended ? BODY_END : BODY_WAIT;
	memcpy(to, b->frame.p + b->frame_at, n);
	b->frame_at += n;
	*ret_n = n;
	return BODY_MORE;
}

static int
read_data(struct body *b, void *to, size_t room, size_t *ret_n)
{
	bool all = b->kind == LEASE_INLINE || b->last;

	*ret_n = take_data(b, to, room);
	if (*ret_n != 0)
		return BODY_MORE;
	if (b->kind == LEASE_UPGRADE)
		return b->last ? BODY_END : BODY_WAIT;
	return all && (b->sent == b->length || b->kind == LEASE_CHUNKED) ? BODY_END : BODY_WAIT;
}

/* Content as it came, signed chunks and all; what goes out is made from it. */
static int
read_again(struct body *b, void *to, size_t room, size_t *ret_n, struct err *err)
{
	for (;;) {
		uint8_t raw[RECHUNK_PUT_MAX];
		size_t n = 0;
		int rc;

		*ret_n = rechunk_take(b->again, to, room);
		if (*ret_n != 0)
			return BODY_MORE;
		if (rechunk_ended(b->again))
			return BODY_END;
		rc = b->kind == LEASE_SEALED ? read_file(b, raw, sizeof(raw), &n, err)
					     : read_data(b, raw, sizeof(raw), &n);
		if (rc == BODY_WAIT || rc < 0)
			return rc;
		rc = n != 0 ? rechunk_put(b->again, str_mem(raw, n), err)
			    : rechunk_end(b->again, err);
		if (rc != 0)
			return rc;
	}
}

int
body_read(struct body *b, void *to, size_t room, size_t *ret_n, struct err *err)
{
	*ret_n = 0;
	if (b->stopped || (b->kind == LEASE_NONE && b->again == NULL))
		return BODY_END;
	if (b->again != NULL)
		return read_again(b, to, room, ret_n, err);
	if (b->kind == LEASE_SEALED)
		return read_file(b, to, room, ret_n, err);
	if (b->kind == LEASE_CHUNKED)
		return read_chunks(b, to, room, ret_n);
	return read_data(b, to, room, ret_n);
}
