// The program that bench-spawn starts: static, and done at once.
int main(void) { return 0; }
