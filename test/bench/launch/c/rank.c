// make bench-spawn starts this program, which is static and ends at once.
int main(void) { return 0; }
