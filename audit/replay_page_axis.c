/*
 * The time axis of the page: four lanes, each record a mark, freezes as bands. Runs in the command
 * line. Marks that would stand on one spot become one, of the gravest of them: a page of ten
 * thousand records has an axis of a few hundred marks.
 */
#include <inttypes.h>

#include "audit/replay_html.h"
#include "audit/replay_page_int.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define SPOTS 400 /* places of a lane */
#define WIDE 1000 /* of the drawing */
#define LANE_HIGH 26u
#define HIGH (LANE_HIGH * 4)

struct spot {
	uint64_t seq;
	unsigned n;
	enum replay_tone tone;
};

/* Where an instant stands, within the drawing. */
static int64_t
x_of(const struct page *p, int64_t us)
{
	int64_t from = p->o.scan->begin_us, span = p->o.scan->end_us - from;

	if (us <= from)
		return 0;
	if (span <= 0 || us - from >= span)
		return WIDE;
	return (int64_t)((double)(us - from) * WIDE / (double)span);
}

static unsigned
grave(enum replay_tone tone)
{
	static const unsigned of[] = {[TONE_PLAIN] = 0,
	    [TONE_CLAIM] = 1,
	    [TONE_ALLOW] = 2,
	    [TONE_WAIT] = 3,
	    [TONE_DENY] = 5,
	    [TONE_GAP] = 4};

	return of[tone];
}

static void
take(struct page *p, struct spot spots[LANES][SPOTS])
{
	for (size_t i = 0; i < p->o.scan->nmarks; i++) {
		const struct replay_mark *m = &p->o.scan->marks[i];
		size_t at = (size_t)x_of(p, m->us) * (SPOTS - 1) / WIDE;
		struct spot *s = &spots[m->lane][at];

		if (s->n++ == 0 || grave(m->tone) > grave(s->tone)) {
			s->seq = m->seq;
			s->tone = m->tone;
		}
	}
}

static void
put_spots(struct page *p, const struct spot spots[SPOTS], unsigned lane)
{
	static const char *const class[] = {[TONE_PLAIN] = "plain",
	    [TONE_CLAIM] = "claim",
	    [TONE_ALLOW] = "allow",
	    [TONE_WAIT] = "wait",
	    [TONE_DENY] = "deny",
	    [TONE_GAP] = "lost"};

	for (unsigned i = 0; i < SPOTS; i++) {
		if (spots[i].n == 0)
			continue;
		buf_printf(&p->b,
		    "<a href=\"#s%" PRIu64
		    "\" tabindex=\"-1\"><rect class=\"%s\" x=\"%u\" y=\"%u\" "
		    "width=\"3\" height=\"%u\"><title>%s, record %" PRIu64,
		    spots[i].seq, class[spots[i].tone], i * (WIDE - 3) / (SPOTS - 1),
		    lane * LANE_HIGH + 4, LANE_HIGH - 8,
		    replay_lane_name((enum replay_lane)(lane + 1)), spots[i].seq);
		if (spots[i].n > 1)
			buf_printf(&p->b, " and %u more", spots[i].n - 1);
		buf_put_z(&p->b, "</title></rect></a>\n");
	}
}

static void
put_bands(struct page *p)
{
	for (size_t i = 0; i < p->o.nbands; i++) {
		int64_t from = x_of(p, p->o.bands[i].from_us), to = x_of(p, p->o.bands[i].to_us);

		buf_printf(&p->b,
		    "<rect class=\"freeze\" x=\"%" PRId64 "\" y=\"0\" width=\"%" PRId64
		    "\" height=\"%u\"><title>",
		    from, to > from ? to - from : 1, HIGH);
		html_put_z(&p->b, p->o.bands[i].name);
		buf_put_z(&p->b, "</title></rect>\n");
	}
}

/* The bands in words, since a colour says nothing to some. */
static void
put_legend(struct page *p)
{
	for (size_t i = 0; i < p->o.nbands; i++) {
		buf_put_z(&p->b, "<p class=\"legend\"><span class=\"swatch\"></span> ");
		html_put_z(&p->b, p->o.bands[i].name);
		buf_put_z(&p->b, ": ");
		page_clock(&p->b, p->o.bands[i].from_us);
		buf_put_z(&p->b, " to ");
		if (p->o.bands[i].to_us == INT64_MAX)
			buf_put_z(&p->b, "its end");
		else
			page_clock(&p->b, p->o.bands[i].to_us);
		buf_put_z(&p->b, "</p>\n");
	}
	if (p->o.nbands == 0 && p->o.bands_why == NULL)
		buf_put_z(&p->b, "<p class=\"legend\">No freeze was in force.</p>\n");
}

static void
put_labels(struct page *p)
{
	buf_put_z(&p->b, "<div class=\"lanes\">");
	for (unsigned lane = 1; lane < LANES; lane++)
		buf_printf(&p->b, "<span class=\"lane-%s\">%s</span>",
		    replay_lane_name((enum replay_lane)lane),
		    replay_lane_name((enum replay_lane)lane));
	buf_put_z(&p->b, "</div>\n");
}

void
page_axis(struct page *p)
{
	struct spot(*spots)[SPOTS] = xcalloc(LANES, sizeof(*spots));
	const struct replay_scan *s = p->o.scan;

	take(p, spots);
	buf_put_z(&p->b, "<section class=\"axis\"><h2>Time</h2>\n<div class=\"drawing\">\n");
	put_labels(p);
	buf_printf(&p->b,
	    "<svg viewBox=\"0 0 %d %u\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\n", WIDE,
	    HIGH);
	put_bands(p);
	for (unsigned lane = 1; lane < LANES; lane++) {
		buf_printf(&p->b, "<path class=\"line\" d=\"M0 %uH%d\"/>\n",
		    (lane - 1) * LANE_HIGH + LANE_HIGH / 2, WIDE);
		put_spots(p, spots[lane], lane - 1);
	}
	buf_put_z(&p->b, "</svg>\n<div class=\"ticks\">");
	for (int i = 0; i <= 4; i++) {
		buf_put_z(&p->b, "<span>");
		page_clock(&p->b, s->begin_us + (s->end_us - s->begin_us) / 4 * i);
		buf_put_z(&p->b, "</span>");
	}
	buf_put_z(&p->b, "</div></div>\n");
	put_legend(p);
	buf_put_z(&p->b, "</section>\n");
	free(spots);
}
