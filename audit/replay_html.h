/* Text into HTML: what is a byte and no character stands as a marked escape, so that the bytes can
 * be read back from the page (audit/page/page.js does). */
#ifndef AUDIT_REPLAY_HTML_H
#define AUDIT_REPLAY_HTML_H

#include "common/buf.h"

/* Any bytes; LF and TAB stay, all that log_vis would change becomes <b class="byte">\xNN</b>. */
void html_put(struct buf *b, struct str s);
void html_put_z(struct buf *b, const char *z);

#endif
