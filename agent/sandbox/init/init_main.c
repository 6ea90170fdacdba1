/* Pid 1 of a sandbox. */
void _start(void);
void
_start(void)
{
	for (;;)
		continue;
}
