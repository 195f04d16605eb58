// make bench-spawn starts this program, which exits at once.
int main(void) { return 0; }
