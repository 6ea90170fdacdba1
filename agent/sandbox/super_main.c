/* cofferdam-sandbox */

int
main(void)
{
	return 2;
}
