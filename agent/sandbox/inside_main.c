/* cofferdam-inside */

int
main(void)
{
	return 2;
}
