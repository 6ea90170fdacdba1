/* The standard streams of a program that people start. */
#ifndef COMMON_STREAMS_H
#define COMMON_STREAMS_H

/*
 * First of all in main(): streams that the caller left closed become /dev/null. Else the next file
 * or socket of ours would have such a number: what is said, or what code in a sandbox prints, would
 * be written into it. Ends the process where that cannot be had.
 */
void streams_open(void);

#endif
