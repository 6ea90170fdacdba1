/* Orders from the wire. */
#ifndef INIT_TAKE_H
#define INIT_TAKE_H

#include <stdbool.h>

/* Reads one order and begins what it says. have_helper: INSIDE_HELPER_FD is open. */
void order_take(bool have_helper);

#endif
