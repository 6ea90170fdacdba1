/*
 * The two streams of a part. Runs inside, beside hostile code; the input comes from the caller and
 * is checked all the same, since a broken pair of programs must fail and not guess.
 */
#include "agent/sandbox/inside_part.h"

#include <errno.h>
#include <stdio.h>
#include <sys/uio.h>

#include "common/banned.h"

static uint64_t sent;

int
inside_write_all(int fd, struct str s)
{
	while (s.n != 0) {
		ssize_t k = write(fd, s.p, s.n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		s.p += k;
		s.n -= (size_t)k;
	}
	return 0;
}

int
inside_put(enum frame_type type, struct str body, struct err *err)
{
	uint8_t head[FRAME_HEAD] = {(uint8_t)type, (uint8_t)(body.n >> 24), (uint8_t)(body.n >> 16),
	    (uint8_t)(body.n >> 8), (uint8_t)body.n};
	struct iovec v[2] = {{.iov_base = head, .iov_len = sizeof(head)}, {.iov_len = body.n}};
	ssize_t k;
	size_t done;
	int rc;

	memcpy(&v[1].iov_base, &body.p, sizeof(body.p));
	do {
		k = writev(STDOUT_FILENO, v, 2);
	} while (k < 0 && errno == EINTR);
	if (k < 0)
		return err_sys(err, ERR_UNAVAILABLE, errno, "nobody reads the answer");
	done = (size_t)k;
	rc = done < sizeof(head)
		 ? inside_write_all(STDOUT_FILENO, str_mem(head + done, sizeof(head) - done))
		 : 0;
	done = done > sizeof(head) ? done - sizeof(head) : 0;
	if (rc == 0)
		rc = inside_write_all(STDOUT_FILENO, (struct str){body.p + done, body.n - done});
	return rc != 0 ? err_sys(err, ERR_UNAVAILABLE, -rc, "nobody reads the answer") : 0;
}

int
inside_data(struct str s, struct err *err)
{
	while (s.n != 0) {
		size_t n = s.n < FRAME_DATA_MAX ? s.n : FRAME_DATA_MAX;

		if (inside_put(FRAME_DATA, (struct str){s.p, n}, err) != 0)
			return err->code;
		sent += n;
		s.p += n;
		s.n -= n;
	}
	return 0;
}

int
inside_end(struct err *err)
{
	AUTO_BUF struct buf b = BUF(8);

	buf_u64(&b, sent);
	return inside_put(FRAME_END, buf_str(&b), err);
}

static int
read_all(void *p, size_t n, struct err *err)
{
	size_t off = 0;

	while (off < n) {
		ssize_t k = read(STDIN_FILENO, (char *)p + off, n - off);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "input");
		if (k == 0)
			return err_set(err, ERR_PROTOCOL, "input ended before its last frame");
		off += (size_t)k;
	}
	return 0;
}

int
inside_take(struct buf *body, struct err *err)
{
	uint8_t head[FRAME_HEAD], type;
	struct rd r;
	uint32_t n;

	if (read_all(head, sizeof(head), err) != 0)
		return err->code;
	r = rd_init(str_mem(head, sizeof(head)));
	type = rd_u8(&r);
	n = rd_u32(&r);
	if (!(type == FRAME_DATA && n != 0 && n <= FRAME_DATA_MAX) &&
	    !(type == FRAME_END && n == 8))
		return err_set(err, ERR_PROTOCOL, "input: frame of type %u and %u bytes", type, n);
	buf_reset(body);
	if (read_all(buf_grow(body, n), n, err) != 0)
		return err->code;
	return type;
}

static int
code_of(int errnum)
{
	switch (errnum) {
	case ENOENT:
	case ENOTDIR: return ERR_NOT_FOUND;
	case EEXIST:
	case ENOTEMPTY: return ERR_EXISTS;
	case EACCES:
	case EPERM:
	case EROFS: return ERR_DENIED;
	case ENOSPC:
	case EDQUOT: return ERR_DISK_FULL;
	case EISDIR:
	case ELOOP:
	case EXDEV:
	case ENXIO:
	case EINVAL:
	case ENAMETOOLONG: return ERR_INVALID;
	case EFBIG: return ERR_TOO_LARGE;
	default: return ERR_SYSTEM;
	}
}

int
inside_errno(struct err *err, int errnum, const char *what, const char *path)
{
	return err_sys(err, code_of(errnum), errnum, "%s %s", what, path);
}
