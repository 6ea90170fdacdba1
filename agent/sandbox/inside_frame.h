/*
 * What a part of cofferdam-inside and its caller say to each other over the part's standard input
 * and output: frames of u8 type, u32 length (big-endian), body. Bytes of files travel in DATA only,
 * so no content can be taken for anything else. Exactly one END or ERROR is the last frame of the
 * part; the caller believes nothing that is not in the tables of sandbox_frame.c. To the part go
 * DATA and END alone; an input that ends without END is undone.
 */
#ifndef AGENT_SANDBOX_INSIDE_FRAME_H
#define AGENT_SANDBOX_INSIDE_FRAME_H

#define FRAME_HEAD 5
#define FRAME_DATA_MAX ((size_t)64 << 10)
#define FRAME_BODY_MAX ((size_t)12 << 10) /* of the others: two paths and some numbers */
#define FRAME_ENTRIES_MAX 10000
#define FRAME_DEPTH_MAX 128

enum frame_type {
	FRAME_DATA = 'D',
	FRAME_END = 'Z',   /* u64 bytes of all DATA */
	FRAME_ERROR = 'E', /* u32 -code, str text */
	FRAME_ENTRY = 'N', /* u8 kind, u64 size, u32 mode, u64 mtime ms (two's complement), str path
			      as asked and below, str target of a link */
	FRAME_CHANGE = 'C', /* u8 op, str path, str new path of a rename */
};

/* Both as bytes that people can read in a dump. */
enum frame_kind { KIND_FILE = 'f', KIND_DIR = 'd', KIND_LINK = 'l', KIND_OTHER = 'o' };
enum frame_op {
	OP_CREATE = 'c',
	OP_WRITE = 'w',
	OP_REMOVE = 'd',
	OP_RENAME = 'r',
	OP_CHMOD = 'm',
	OP_READY = 'y',	   /* first of all: from now on nothing is missed */
	OP_OVERFLOW = 'o', /* some changes were lost: look at the directory anew */
};

#endif
